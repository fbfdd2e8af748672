-- Queries of many shapes over two datasets. Every one uses both parameters, so that all are asked in the same way.

-- shape: a filter
SELECT id, city FROM reports WHERE kind = :kind AND severity >= :least

-- shape: a filter without an equality
SELECT id FROM reports WHERE severity > :least AND kind <> :kind

-- shape: a parameter in the result
SELECT id, :kind AS asked, severity - :least AS above FROM reports WHERE severity > :least

-- shape: no dataset at all
SELECT :kind AS kind, :least + 1 AS next

-- shape: a global aggregate
SELECT count(*) AS n, sum(severity) AS s FROM reports WHERE kind = :kind AND severity > :least

-- shape: groups
SELECT city, count(*) AS n FROM reports WHERE kind = :kind AND severity >= :least GROUP BY city

-- shape: groups by a parameter
SELECT severity > :least AS high, count(*) AS n FROM reports WHERE kind = :kind GROUP BY severity > :least

-- shape: groups by an alias
SELECT CASE WHEN severity > :least THEN 'high' ELSE :kind END AS level, count(*) AS n FROM reports GROUP BY
level

-- shape: an aggregate over a parameter
SELECT city, count(*) FILTER (WHERE severity > :least) AS n FROM reports WHERE kind = :kind GROUP BY city

-- shape: having
SELECT city, count(*) AS n FROM reports WHERE kind = :kind GROUP BY city HAVING count(*) > :least

-- shape: having without groups
SELECT max(weight) AS m FROM reports WHERE kind = :kind HAVING count(*) > :least

-- shape: distinct
SELECT DISTINCT city FROM reports WHERE kind = :kind AND severity >= :least

-- shape: top n
SELECT id, weight FROM reports WHERE kind = :kind AND severity >= :least ORDER BY weight DESC, id LIMIT 3

-- shape: top n of what is nearest
SELECT id FROM reports WHERE kind <> :kind ORDER BY abs(weight - :least), id LIMIT 2

-- shape: a page
SELECT id FROM reports WHERE kind = :kind AND severity >= :least ORDER BY id LIMIT 2 OFFSET 1

-- shape: sorted
SELECT id, weight FROM reports WHERE kind = :kind AND severity >= :least ORDER BY weight DESC NULLS LAST, id

-- shape: sorted by what is not selected
SELECT r.id FROM reports r WHERE r.kind = :kind ORDER BY r.severity + :least DESC, r.id

-- shape: sorted by place
SELECT city, count(*) FROM reports WHERE kind = :kind AND severity > :least GROUP BY city ORDER BY 2 DESC, 1

-- shape: with
WITH c AS (SELECT * FROM reports WHERE kind = :kind) SELECT id FROM c WHERE severity > :least

-- shape: with, read twice
WITH c AS (SELECT * FROM reports WHERE kind = :kind) SELECT a.id, b.id AS other FROM c a JOIN c b ON a.city =
b.city AND a.id < b.id WHERE a.severity >= :least

-- shape: with, read in a subquery
WITH c AS (SELECT kind FROM shelters WHERE beds > :least) SELECT id FROM reports r WHERE kind = :kind AND EXISTS
(SELECT 1 FROM c WHERE c.kind = r.kind)

-- shape: with, of another
WITH a AS (SELECT * FROM reports WHERE kind = :kind), b(city, n) AS (SELECT city, count(*) FROM a GROUP BY city)
SELECT city FROM b WHERE n > :least

-- shape: with groups, outer joined
WITH c AS (SELECT kind, count(*) AS n FROM reports WHERE severity > :least GROUP BY kind) SELECT s.id, c.n FROM
shelters s LEFT JOIN c ON c.kind = s.kind WHERE s.kind = :kind

-- shape: a derived table
SELECT * FROM (SELECT id, kind FROM reports WHERE severity > :least) t WHERE kind = :kind

-- shape: a join
SELECT r.id, s.id AS shelter FROM reports r JOIN shelters s ON r.kind = s.kind WHERE r.kind = :kind AND s.beds >
:least

-- shape: a join by a range
SELECT r.id, s.id AS shelter FROM reports r JOIN shelters s ON r.severity BETWEEN s.beds - :least AND s.beds +
:least WHERE r.kind = :kind

-- shape: a join using
SELECT r.id, kind FROM reports r JOIN shelters s USING (kind) WHERE kind = :kind AND beds > :least

-- shape: an outer join
SELECT r.id, s.id AS shelter FROM reports r LEFT JOIN shelters s ON r.kind = s.kind AND s.beds > :least WHERE
r.kind = :kind

-- shape: an outer join on a parameter of the kept side
SELECT s.id, r.id AS report FROM shelters s LEFT JOIN reports r ON r.kind = s.kind AND s.kind = :kind AND
r.severity = :least

-- shape: an outer join of two that are joined
SELECT r.id, count(s.id) AS n FROM reports r, reports o LEFT JOIN shelters s ON s.kind = o.kind AND s.beds > :least
WHERE r.id + 1 = o.id AND r.kind = :kind AND o.severity >= :least GROUP BY r.id

-- shape: a natural join
SELECT id, beds FROM reports r NATURAL JOIN shelters s WHERE kind = :kind AND beds >= :least

-- shape: a pivot of what is asked for
SELECT * FROM (SELECT city, severity, id FROM reports WHERE kind = :kind) PIVOT (count(id) FOR severity IN (1 AS one,
2 AS two)) WHERE one >= :least - 1

-- shape: a right join
SELECT s.id, r.id AS report FROM reports r RIGHT JOIN shelters s ON r.kind = s.kind AND r.severity > :least
WHERE s.kind = :kind

-- shape: an outer join with a derived table
SELECT s.id, t.id AS report FROM shelters s LEFT JOIN (SELECT * FROM reports WHERE severity > :least) t ON
t.kind = s.kind WHERE s.kind = :kind

-- shape: a semi join
SELECT id FROM reports r LEFT SEMI JOIN shelters s ON r.kind = s.kind AND s.beds > :least WHERE r.kind = :kind

-- shape: an anti join
SELECT id FROM reports r LEFT ANTI JOIN shelters s ON r.kind = s.kind AND s.beds > :least WHERE r.kind <> :kind

-- shape: union
SELECT id FROM reports WHERE kind = :kind UNION SELECT id FROM shelters WHERE kind = :kind AND beds > :least

-- shape: union all, half of it the same for all
SELECT id FROM reports WHERE kind = :kind AND severity > :least UNION ALL SELECT id FROM shelters

-- shape: union, sorted
(SELECT id FROM reports WHERE kind = :kind ORDER BY id LIMIT 2) UNION ALL (SELECT id FROM shelters WHERE beds >
:least) ORDER BY id DESC

-- shape: union, ranked
SELECT id, rank() OVER (ORDER BY id) AS place FROM reports WHERE kind = :kind UNION ALL SELECT id, beds FROM shelters
WHERE beds > :least

-- shape: union, grouped
SELECT city, count(*) AS n FROM reports WHERE kind = :kind GROUP BY city UNION ALL SELECT kind, beds FROM shelters
WHERE beds > :least

-- shape: union, of the first of each
SELECT max(id) AS id FROM reports WHERE kind = :kind UNION SELECT id FROM (SELECT id FROM shelters WHERE beds > :least
ORDER BY id LIMIT 1) s

-- shape: except
SELECT severity FROM reports WHERE kind = :kind EXCEPT SELECT beds FROM shelters WHERE beds > :least

-- shape: intersect
SELECT severity FROM reports WHERE kind = :kind INTERSECT SELECT beds FROM shelters WHERE beds > :least

-- shape: a window
SELECT id, rank() OVER (PARTITION BY city ORDER BY weight, id) AS place FROM reports WHERE kind = :kind AND
severity >= :least

-- shape: a window over a parameter
SELECT id, sum(severity - :least) OVER (PARTITION BY city) AS s FROM reports WHERE kind = :kind

-- shape: the first of each window
SELECT id FROM (SELECT id, rank() OVER (PARTITION BY city ORDER BY weight, id) AS place FROM reports WHERE kind
= :kind) t WHERE place <= :least

-- shape: exists
SELECT id FROM reports r WHERE kind = :kind AND EXISTS (SELECT 1 FROM shelters s WHERE s.kind = r.kind AND
s.beds > :least)

-- shape: not exists
SELECT id FROM reports r WHERE kind <> :kind AND NOT EXISTS (SELECT 1 FROM shelters s WHERE s.kind = r.kind AND
s.beds > :least)

-- shape: everything, where exists
SELECT * FROM reports r WHERE EXISTS (SELECT 1 FROM shelters s WHERE s.kind = :kind AND s.beds = r.severity +
:least)

-- shape: in
SELECT id FROM reports WHERE severity > :least AND severity IN (SELECT beds FROM shelters WHERE kind = :kind)

-- shape: not in
SELECT id FROM reports WHERE severity > :least AND severity NOT IN (SELECT beds FROM shelters WHERE kind = :kind
AND beds IS NOT NULL)

-- shape: in, two levels down
SELECT id FROM reports WHERE severity IN (SELECT beds FROM shelters WHERE beds IN (SELECT severity FROM reports
x WHERE x.kind = :kind AND x.severity > :least))

-- shape: a scalar subquery in the result
SELECT id, (SELECT max(beds) FROM shelters s WHERE s.kind = :kind) AS most FROM reports WHERE severity > :least

-- shape: a scalar subquery in a condition
SELECT id FROM reports WHERE severity + :least > (SELECT avg(beds) FROM shelters WHERE kind = :kind)

-- shape: a scalar subquery and nothing else
SELECT (SELECT count(*) FROM shelters WHERE kind = :kind AND beds > :least) AS n

-- shape: lateral
SELECT r.id, q.n FROM reports r, LATERAL (SELECT count(*) AS n FROM shelters s WHERE s.kind = r.kind AND s.beds
> :least) q WHERE r.kind = :kind

-- shape: explode
SELECT id, e FROM reports LATERAL VIEW explode(array(severity, :least)) x AS e WHERE kind = :kind

-- shape: pivot
SELECT * FROM (SELECT city, severity, id FROM reports WHERE kind = :kind AND id > :least) PIVOT (count(id) FOR
severity IN (1 AS one, 2 AS two))

-- shape: comments and strings
SELECT id, ':kind' AS a /* :least */ FROM reports -- :kind
WHERE kind = :kind AND ':least' <> "it's :kind" AND CAST(severity AS STRING)::INT > :least
