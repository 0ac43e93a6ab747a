"""`python -m harness -- COMMAND...`: runs a command with a fresh server.

The command sees QUARTET_REDIS_HOST, QUARTET_REDIS_PORT, QUARTET_HTTP_PORT, QUARTET_REST_READ_ONLY_TOKEN, QUARTET_FAUNA_PORT, FDB_CLUSTER_FILE and
AWS_ENDPOINT_URL_DYNAMODB with a region and a key, and `{port}` in its arguments is replaced. The exit code is the command's, or 1 when
the server did not outlive it.
"""

import os
import signal
import subprocess
import sys

from .server import REST_READ_ONLY_TOKEN
from .target import TRIES_MAX, client_server, running


# A suite over a cluster takes seconds, on a slow machine minutes; what a failed test left open may keep its process.
RUN_SECONDS_MAX = 900


def main() -> int:
    """Over a cluster a run that failed while another node became home is forgotten, and repeated over a new cluster."""
    command = sys.argv[1:]
    if command[:1] == ["--"]:
        command = command[1:]
    for _ in range(TRIES_MAX):
        code, output, may_repeat = run(command)
        if not may_repeat:
            break
    sys.stdout.buffer.write(output)
    sys.stdout.flush()
    return code


def run(command: list[str]) -> tuple[int, bytes, bool]:
    server = client_server()
    try:
        server.start()
        environment = dict(os.environ)
        environment["QUARTET_REDIS_HOST"] = "127.0.0.1"
        environment["QUARTET_REDIS_PORT"] = str(server.port)
        environment["QUARTET_HTTP_PORT"] = str(server.http_port)
        environment["QUARTET_REST_READ_ONLY_TOKEN"] = REST_READ_ONLY_TOKEN
        environment["QUARTET_FAUNA_PORT"] = str(server.fauna_port)
        environment["FDB_CLUSTER_FILE"] = os.path.join(server.data, "fdb.cluster")
        environment["AWS_ENDPOINT_URL_DYNAMODB"] = f"http://127.0.0.1:{server.dynamodb_port}"
        environment["AWS_ENDPOINT_URL_DYNAMODB_STREAMS"] = environment["AWS_ENDPOINT_URL_DYNAMODB"]
        environment.update(AWS_REGION="us-east-1", AWS_ACCESS_KEY_ID="test", AWS_SECRET_ACCESS_KEY="test")
        words = [part.replace("{port}", str(server.port)) for part in command]
        if not running():
            code, output = subprocess.run(words, env=environment).returncode, b""
        else:
            code, output = bounded(words, environment)
        if not server.alive():
            print("the server ended during the run:\n" + "".join(server.output[-40:]), file=sys.stderr)
            return 1, output, False
        return code, output, code != 0 and bool(running()) and running().has_moved()
    finally:
        server.close()


def bounded(words: list[str], environment: dict[str, str]) -> tuple[int, bytes]:
    """The exit code and the output; after too long the command and what it started are killed."""
    process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, start_new_session=True)
    try:
        output, _ = process.communicate(timeout=RUN_SECONDS_MAX)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        print(f"ended after {RUN_SECONDS_MAX} s", file=sys.stderr)
        return 1, process.communicate()[0]


sys.exit(main())
