"""The command line as a process of its own."""

import subprocess
import sys


def test_a_command_does_not_wait_for_what_others_import() -> None:
    script = "import sys\nfrom nearcast.cli.main import command_line\ncommand_line('pub')\nprint(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.split()
    assert "nearcast.cli.pub" in loaded
    assert not {"nearcast.lab", "nearcast.coordinator", "nearcast.agent"} & set(loaded)
