"""Write docs/snapshot.schema.json from the code that reads and writes snapshots."""

from pathlib import Path

from nearcast.domain.snapshot_json import snapshot_schema

if __name__ == "__main__":
    target = Path(__file__).resolve().parent.parent / "docs" / "snapshot.schema.json"
    target.write_bytes(snapshot_schema())
    print(f"wrote {target.name}")
