"""Checks the identity of a call with PyJWT and cryptography: check.py CERTIFICATE IDENTITY CALLER CALLED."""

import sys
import time

import jwt
from cryptography import x509

certificate, identity, caller, called = sys.argv[1:]
with open(certificate, "rb") as file:
    key = x509.load_pem_x509_certificate(file.read()).public_key()
token, _, params = identity.partition(";")
claims = jwt.decode(token, key, algorithms=["ES256"])
header = jwt.get_unverified_header(token)
assert header["typ"] == "passport" and header["ppt"] == "shaken" and header["alg"] == "ES256", header
assert f"info=<{header['x5u']}>" in params, params
assert claims["orig"] == {"tn": caller} and claims["dest"] == {"tn": [called]}, claims
assert claims["attest"] == "A" and len(claims["origid"]) == 36, claims
assert abs(claims["iat"] - time.time()) < 60, claims
print("valid")
