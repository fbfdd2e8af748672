// The one way to the coordinator.

const PREFIX = "/api/v1";

export class Problem extends Error {
  constructor(status, said) {
    super(said.error ?? `the answer was ${status}`);
    this.status = status;
    this.field = said.field;
  }
}

async function answered(asked) {
  let response;
  try {
    response = await asked;
  } catch {
    throw new Problem(0, { error: "the coordinator does not answer" });
  }
  const said = await response.json().catch(() => ({}));
  if (!response.ok) throw new Problem(response.status, said);
  return said;
}

export function get(path, query) {
  const given = Object.entries(query ?? {}).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const text = new URLSearchParams(given).toString();
  return answered(fetch(`${PREFIX}/${path}${text ? `?${text}` : ""}`));
}

export function post(path, body, dryRun) {
  const asked = fetch(`${PREFIX}/${path}?dry_run=${dryRun}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  return answered(asked);
}

export const topicPath = (name) => `topics/${name.split("/").map(encodeURIComponent).join("/")}`;

// Calls `look` whenever something new was seen, and `lost` when nobody tells any more. Browsers reconnect by themselves.
export function follow(look, lost) {
  const events = new EventSource(`${PREFIX}/events`);
  events.addEventListener("look", (event) => look(JSON.parse(event.data)));
  events.addEventListener("error", lost);
}

export async function finished(task, patience_s = 30) {
  for (let waited = 0; waited < patience_s; waited += 0.5) {
    try {
      const found = await get(`tasks/${encodeURIComponent(task)}`);
      if (found.state !== "running") return found;
    } catch (error) {
      if (error.status !== 404) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
  return null;
}
