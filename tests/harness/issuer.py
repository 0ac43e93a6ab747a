"""An issuer of JSON Web Tokens: signs them, and publishes its keys over HTTPS on a free loopback port."""

from __future__ import annotations

import base64
import http.server
import json
import ssl
import threading

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from .certificates import Certificates


def encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def number(value: int, size: int | None = None) -> str:
    return encode(value.to_bytes(size or (value.bit_length() + 7) // 8, "big"))


class RsaKey:
    algorithm = "RS256"

    def __init__(self, name: str):
        self.name, self.key = name, rsa.generate_private_key(65537, 2048)

    def public(self) -> dict:
        numbers = self.key.public_key().public_numbers()
        return {"kty": "RSA", "kid": self.name, "use": "sig", "n": number(numbers.n), "e": number(numbers.e)}

    def sign(self, data: bytes) -> bytes:
        return self.key.sign(data, padding.PKCS1v15(), hashes.SHA256())


class EllipticKey:
    algorithm = "ES256"

    def __init__(self, name: str):
        self.name, self.key = name, ec.generate_private_key(ec.SECP256R1())

    def public(self) -> dict:
        numbers = self.key.public_key().public_numbers()
        return {"kty": "EC", "crv": "P-256", "kid": self.name, "x": number(numbers.x, 32), "y": number(numbers.y, 32)}

    def sign(self, data: bytes) -> bytes:
        r, s = decode_dss_signature(self.key.sign(data, ec.ECDSA(hashes.SHA256())))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")


class Issuer:
    def __init__(self, certificates: Certificates):
        self.keys: list[RsaKey | EllipticKey] = []
        self.body: bytes | None = None
        self.status = 200
        self.asked = 0
        issuer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                issuer.asked += 1
                body = issuer.body or json.dumps({"keys": [key.public() for key in issuer.keys]}).encode()
                self.send_response(issuer.status)
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.certificate, certificates.key)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.port = self.server.server_address[1]

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def uri(self, path: str = "keys") -> str:
        return f"https://localhost:{self.port}/{path}"

    @staticmethod
    def token(key: RsaKey | EllipticKey, claims: dict, **header) -> str:
        header = {"alg": key.algorithm, "typ": "JWT", "kid": key.name, **header}
        signed = ".".join(encode(json.dumps(part).encode()) for part in (header, claims))
        return f"{signed}.{encode(key.sign(signed.encode()))}"
