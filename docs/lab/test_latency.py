"""Latencies of a machine in a labgrid environment: it is switched on, `attach` takes its run in.

    LG_TAKT_IMAGE=takt.elf LG_TAKT_LINE=/tmp/com1 pytest --lg-env labgrid.yaml test_latency.py

LG_TAKT_IMAGE is the image, LG_TAKT_LINE the socket for QEMU's serial port; TAKT_SERIAL is the line where it is another one
(/dev/ttyUSB0, tcp:HOST:PORT), TAKT is how the host tool is called, TAKT_MAX_NS the limit of the thread latency.
"""

import json
import os
import shlex
import subprocess


def test_latency(target, tmp_path):
    machine = target.get_driver("PowerProtocol")
    folder = tmp_path / "run"
    line = os.environ.get("TAKT_SERIAL", "unix:" + os.environ.get("LG_TAKT_LINE", ""))
    attach = subprocess.Popen(
        shlex.split(os.environ.get("TAKT", "cargo xtask"))
        + ["attach", "--listen", "--serial", line]
        + ["--image", os.environ["LG_TAKT_IMAGE"], "--output", str(folder)]
    )
    try:
        machine.on()
        assert attach.wait(timeout=600) == 0
    finally:
        attach.kill()
        attach.wait()
        machine.off()
    run = json.loads((folder / "run.json").read_text())
    assert run["slots"], "nothing was measured"
    for slot in run["slots"]:
        assert slot["thread"]["count"] > 0
        assert slot["thread"]["max"] <= int(os.environ.get("TAKT_MAX_NS", "20000"))
