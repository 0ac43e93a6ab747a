"""`python -m harness -- COMMAND...`: runs a command with a fresh server.

The command sees QUARTET_REDIS_HOST, QUARTET_REDIS_PORT, QUARTET_HTTP_PORT, QUARTET_REST_READ_ONLY_TOKEN, QUARTET_FAUNA_PORT, FDB_CLUSTER_FILE and
AWS_ENDPOINT_URL_DYNAMODB with a region and a key, and `{port}` in its arguments is replaced. The exit code is the command's, or 1 when
the server did not outlive it.
"""

import os
import subprocess
import sys

from .server import REST_READ_ONLY_TOKEN
from .target import TRIES_MAX, client_server, running


def main() -> int:
    command = sys.argv[1:]
    if command[:1] == ["--"]:
        command = command[1:]
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
        code = run([part.replace("{port}", str(server.port)) for part in command], environment)
        if not server.alive():
            print("the server ended during the run:\n" + "".join(server.output[-40:]), file=sys.stderr)
            return 1
        return code
    finally:
        server.close()


def run(command: list[str], environment: dict[str, str]) -> int:
    """Over a cluster a run that failed while another node became home is forgotten, and begun again."""
    if not running():
        return subprocess.run(command, env=environment).returncode
    for _ in range(TRIES_MAX):
        ran = subprocess.run(command, env=environment, stdout=subprocess.PIPE)
        if ran.returncode == 0 or not running().has_moved():
            break
    sys.stdout.buffer.write(ran.stdout)
    sys.stdout.flush()
    return ran.returncode


sys.exit(main())
