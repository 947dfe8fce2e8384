"""`python -m tests.vectors.generate`: writes the vector files beside it. Another implementation needs the files only.

Every vector follows from a rule that it names. Keys come from fixed seeds, times from a fixed `now`, so the files are
the same at every run; a test holds them up to date. `tokens.json`: each token with the issuers (and revoked) file it meets,
the time, and the class that it ends in: `ok`, or the name of a refusal. `issuers.json` and `revoked.json`: texts with
`ok` and what they hold, or `refused` and the line that is named.
"""

# ruff: noqa: E501 - tables read best with one entry a line

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nacl.signing import SigningKey

NOW = 1_800_000_000
FOLDER = Path(__file__).parent
GROUP_ORDER = 2**252 + 27742317777372353535851937790883648493
PRIME = 2**255 - 19
SPKI = bytes.fromhex("302a300506032b6570032100")

MALFORMED, UNKNOWN, BAD = "BRAINY_KEY_MALFORMED", "BRAINY_KEY_UNKNOWN_ISSUER", "BRAINY_KEY_BAD_SIGNATURE"
REVOKED, EXPIRED = "BRAINY_KEY_REVOKED", "BRAINY_KEY_EXPIRED"

Vector = dict[str, Any]


def key(name: str) -> SigningKey:
    """A fixed key pair."""
    return SigningKey(hashlib.sha256(f"brainy vector {name}".encode()).digest())


def public(name: str) -> bytes:
    return bytes(key(name).verify_key)


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def b64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def line(issuer: str, name: str, kid: str | None = None) -> str:
    return f"{issuer} ed25519:{b64(public(name))}" + (f" {kid}" if kid else "") + "\n"


ISSUERS = line("alpha", "a1", "one") + line("alpha", "a2", "two") + line("beta", "b1") + line("gamma", "g1")
TEN = "".join(line("many", f"m{n}") for n in range(10))


def claims(**changed: Any) -> dict[str, Any]:
    """The usual payload with some fields changed; a value of `...` takes the field away."""
    found = {
        "iss": "beta",
        "sub": "ada",
        "brain": "notes",
        "scope": ["read", "write"],
        "iat": NOW - 10,
        "exp": NOW + 600,
        **changed,
    }
    return {name: value for name, value in found.items() if value is not ...}


def token(payload: dict[str, Any] | bytes, signer: str = "b1") -> str:
    data = payload if isinstance(payload, bytes) else json.dumps(payload, ensure_ascii=False).encode()
    return f"bk1.{b64url(data)}.{b64url(key(signer).sign(data).signature)}"


def vector(name: str, rule: str, text: str, expect: str, **more: Any) -> Vector:
    return {"name": name, "rule": rule, "token": text, "now": NOW, "issuers": ISSUERS, "expect": expect, **more}


def good_tokens() -> Iterator[Vector]:
    yield vector("plain", "a signed payload is accepted", token(claims()), "ok")
    yield vector("kid", "a kid names one key", token(claims(iss="alpha", kid="two"), "a2"), "ok")
    yield vector(
        "no kid, second key", "without kid every key of the issuer is tried", token(claims(iss="alpha"), "a2"), "ok"
    )
    yield vector("tenth key", "ten keys are tried", token(claims(iss="many"), "m9"), "ok", issuers=TEN)
    spaced = b'{ "exp" : %d,\n"iat":%d, "scope":["write","read"],"brain":"notes","sub":"ada","iss":"beta" }' % (
        NOW + 1,
        NOW,
    )
    yield vector("odd spacing", "the signature covers the bytes as they are", token(spaced), "ok")
    escaped = json.dumps(claims()).replace("ada", "\\u0061da").encode()
    yield vector("escapes", "JSON escapes are JSON", token(escaped), "ok")
    for scope in (
        ["read"],
        ["read", "write"],
        ["write", "read"],
        ["owner", "write", "read"],
        ["read", "write", "owner"],
    ):
        yield vector(f"scope {','.join(scope)}", "a scope set in any order", token(claims(scope=scope)), "ok")
    for seconds in (1, 60):
        yield vector(f"iat {seconds} s ahead", "an issuer may be 60 s ahead", token(claims(iat=NOW + seconds)), "ok")
    yield vector("last second", "expired is now >= exp", token(claims(exp=NOW + 1)), "ok")
    yield vector("366 days", "the longest lifetime", token(claims(iat=NOW, exp=NOW + 366 * 86400)), "ok")
    for jti in ("a", "A-Z.a:z_0", "x" * 128):
        yield vector(f"jti {jti[:12]}", "the form of a jti", token(claims(jti=jti)), "ok")
    for brain in ("n", "Notes-1.b_c", "x" * 64):
        yield vector(f"brain {brain[:12]}", "the form of a brain's name", token(claims(brain=brain)), "ok")
    for sub in ("ada@example.org", "Ada Lovelace", "日本", "auth0|12"):
        yield vector(f"sub {sub}", "a subject is printable text", token(claims(sub=sub)), "ok")


def bad_forms() -> Iterator[Vector]:
    text = token(claims())
    _, payload, signature = text.split(".")
    forms = {
        "one segment": "bk1.",
        "two segments": f"bk1.{payload}",
        "four segments": f"{text}.x",
        "empty payload": f"bk1..{signature}",
        "empty signature": f"bk1.{payload}.",
        "inner space": f"bk1.{payload} .{signature}",
        "trailing newline": f"{text}\n",
        "padding": f"bk1.{payload}.{signature}==",
        "standard alphabet +": f"bk1.{payload}.+{signature[1:]}",
        "standard alphabet /": f"bk1.{payload}./{signature[1:]}",
        "junk inside": f"bk1.{payload}.{signature[:20]}!{signature[20:]}",
        "newline inside": f"bk1.{payload[:8]}\n{payload[8:]}.{signature}",
        "not ASCII": f"bk1.{payload}.é{signature[1:]}",
        "NUL": f"bk1.{payload}\x00.{signature}",
        "over 4 KiB": f"bk1.{'A' * 4096}.{signature}",
        "JWT shape": "bk1.eyJhbGciOiJub25lIn0." + payload,
    }
    for name, form in forms.items():
        yield vector(name, "bk1.<base64url>.<base64url>, canonical, 4 KiB at most", form, MALFORMED)
    last = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    for step in (1, 2, 15):
        moved = last[last.index(signature[-1]) + step] if last.index(signature[-1]) + step < 64 else "B"
        yield vector(
            f"trailing bits +{step}", "one token has one spelling", f"bk1.{payload}.{signature[:-1]}{moved}", MALFORMED
        )
    raw = base64.urlsafe_b64decode(signature + "==")
    for size, data in ((63, raw[:63]), (65, raw + b"x"), (0, b""), (32, raw[:32]), (70, b"\x30\x44" + raw + b"xxxx")):
        yield vector(f"signature of {size} bytes", "64 raw bytes", f"bk1.{payload}.{b64url(data)}", MALFORMED)


def bad_payloads() -> Iterator[Vector]:
    usual = json.dumps(claims()).encode()
    documents: dict[str, bytes] = {
        "array": b"[]",
        "string": b'"bk1"',
        "null": b"null",
        "empty object": b"{}",
        "no JSON": b"iss=beta",
        "duplicate key": usual[:-1] + b', "sub": "root"}',
        "duplicate escaped key": usual[:-1] + b', "s\\u0075b": "root"}',
        "trailing bytes": usual + b"{}",
        "byte order mark": b"\xef\xbb\xbf" + usual,
        "UTF-16": usual.decode().encode("utf-16"),
        "bad UTF-8": usual.replace(b"ada", b"a\xffa"),
        "lone surrogate": usual.replace(b"ada", b"\\ud800"),
        "NaN": usual.replace(str(NOW + 600).encode(), b"NaN"),
        "1e999": usual.replace(str(NOW + 600).encode(), b"1e999"),
        "single quotes": usual.replace(b'"', b"'"),
        "comment": usual[:-1] + b"/* */}",
        "65 levels": usual[:-1] + b', "x": ' + b"[" * 65 + b"]" * 65 + b"}",
        "control character": usual.replace(b"ada", b"a\nda"),
    }
    for name, data in documents.items():
        yield vector(f"payload: {name}", "the payload is one strict JSON object", token(data), MALFORMED)
    for name in ("iss", "sub", "brain", "scope", "iat", "exp"):
        yield vector(f"no {name}", "six fields are required", token(claims(**{name: ...})), MALFORMED)
        yield vector(f"{name} null", "six fields are required", token(claims(**{name: None})), MALFORMED)
    for name in ("aud", "nbf", "alg", "Iss", "admin"):
        yield vector(f"field {name}", "an unknown field is refused", token(claims(**{name: "x"})), MALFORMED)
    for name, value in (
        ("exp", "1800000600"), ("exp", NOW + 600.0), ("exp", True), ("exp", -1), ("exp", 2**64), ("exp", [NOW]),
        ("iat", "1800000000"), ("iat", NOW - 10.0), ("iat", False), ("iat", -5), ("iat", 1e3),
    ):  # fmt: skip
        yield vector(f"{name} {value!r}", "times are whole seconds", token(claims(**{name: value})), MALFORMED)
    for name, times in {
        "exp = iat": {"iat": NOW, "exp": NOW},
        "exp < iat": {"iat": NOW, "exp": NOW - 1},
        "366 days and a second": {"iat": NOW, "exp": NOW + 366 * 86400 + 1},
        "ten years": {"iat": NOW, "exp": NOW + 3650 * 86400},
        "iat 61 s ahead": {"iat": NOW + 61},
        "iat an hour ahead": {"iat": NOW + 3600, "exp": NOW + 7200},
        "milliseconds": {"iat": NOW * 1000, "exp": NOW * 1000 + 600},
    }.items():
        yield vector(name, "iat < exp, 366 days at most, iat 60 s ahead at most", token(claims(**times)), MALFORMED)
    for scope in (
        [], ["write"], ["owner"], ["read", "owner"], ["write", "owner"], ["read", "read"], ["read", "admin"], ["READ"],
        ["read", "write", "owner", "read"], "read", "read,write", {"read": True}, [None], [["read"]], 1,
    ):  # fmt: skip
        yield vector(f"scope {json.dumps(scope)}", "three sets of words", token(claims(scope=scope)), MALFORMED)
    for brain in ("*", "", "no*tes", "a,b", "-a", ".a", "a/b", "x" * 65, ["notes"], 7, "nötes", "notes\n"):
        yield vector(f"brain {json.dumps(brain)[:20]}", "the name of one brain", token(claims(brain=brain)), MALFORMED)
    for word in ("", "x" * 129, "a/b", "../x", "%s", "a b", "é", 7, None):
        for name in ("kid", "jti"):
            yield vector(
                f"{name} {json.dumps(word)[:12]}", "the form of kid and jti", token(claims(**{name: word})), MALFORMED
            )
    for sub in ("", " ada", "a\u202eda", "a\u2028b", "x" * 257, 5, "\u0000"):
        for name in ("sub", "iss"):
            yield vector(f"{name} {json.dumps(sub)[:12]}", "printable text", token(claims(**{name: sub})), MALFORMED)


def bad_issuers_of_tokens() -> Iterator[Vector]:
    for issuer in ("delta", "Beta", "beta.", "bеta", "be\u0301ta", "beta/", "alpha beta"):
        yield vector(f"iss {issuer}", "an issuer's name is compared byte by byte", token(claims(iss=issuer)), UNKNOWN)
    yield vector("kid of nobody", "a kid that no line has", token(claims(iss="alpha", kid="three"), "a1"), UNKNOWN)
    yield vector("kid of another issuer", "a kid belongs to its issuer", token(claims(kid="one"), "a1"), UNKNOWN)
    yield vector("kid where lines have none", "a kid that no line has", token(claims(kid="one")), UNKNOWN)
    yield vector("no issuers file", "no file trusts nobody", token(claims()), UNKNOWN, issuers=None)
    yield vector("eleventh key", "ten keys are tried", token(claims(iss="many"), "m10"), BAD, issuers=TEN)


def small_order_points() -> list[bytes]:
    """The 14 encodings of the eight points of small order, derived from the curve: y = 0, 1, -1 and the roots of order
    eight, each also as y + p where that fits into 255 bits, with the sign bit off and on."""
    d = -121665 * pow(121666, -1, PRIME) % PRIME
    # A point of order 8 doubles to one with y = 0: x^2 = -y^2, so d*y^4 + 2*y^2 - 1 = 0.
    root = _square_root((1 + d) % PRIME)
    found: list[int] = []
    for sign in (1, -1):
        y = _square_root((-1 + sign * root) * pow(d, -1, PRIME) % PRIME)
        if y is not None:
            found += [y, PRIME - y]
    ys = [0, 1, PRIME - 1, *found, PRIME, PRIME + 1]
    return [((sign << 255) | y).to_bytes(32, "little") for y in sorted(ys) for sign in (0, 1)]


def _square_root(value: int) -> Any:
    root = pow(value, (PRIME + 3) // 8, PRIME)
    for candidate in (root, root * pow(2, (PRIME - 1) // 4, PRIME) % PRIME):
        if candidate * candidate % PRIME == value:
            return candidate
    return None


def bad_signatures() -> Iterator[Vector]:
    data = json.dumps(claims()).encode()
    raw = key("b1").sign(data).signature
    scalar = int.from_bytes(raw[32:], "little")
    forged = {
        "another issuer's key": key("a1").sign(data).signature,
        "all zero": bytes(64),
        "S = 0": raw[:32] + bytes(32),
        "S + L": raw[:32] + (scalar + GROUP_ORDER).to_bytes(32, "little"),
        "first bit": bytes([raw[0] ^ 1]) + raw[1:],
        "last bit": raw[:63] + bytes([raw[63] ^ 0x10]),
        "halves swapped": raw[32:] + raw[:32],
        "HMAC with the public key": hashlib.sha512(public("b1") + data).digest(),
    }
    for name, signature in forged.items():
        yield vector(name, "Ed25519, RFC 8032, strict", f"bk1.{b64url(data)}.{b64url(signature)}", BAD)
    for number, point in enumerate(small_order_points()):
        text = f"bk1.{b64url(data)}.{b64url(point + raw[32:])}"
        yield vector(f"R of small order {number}", "R is no point of small order", text, BAD)
    respelled = json.dumps(claims(), separators=(",", ":")).encode()
    text = f"bk1.{b64url(respelled)}.{b64url(raw)}"
    yield vector("re-serialised", "the signature covers the exact bytes", text, BAD)
    yield vector(
        "raised scope",
        "the signature covers the exact bytes",
        f"bk1.{b64url(data.replace(b'write', b'owner'))}.{b64url(raw)}",
        MALFORMED,
    )
    yield vector(
        "other brain",
        "the signature covers the exact bytes",
        f"bk1.{b64url(data.replace(b'notes', b'other'))}.{b64url(raw)}",
        BAD,
    )
    yield vector(
        "kid names the wrong key", "only the named key is tried", token(claims(iss="alpha", kid="one"), "a2"), BAD
    )
    yield vector("issuer A signs as B", "keys belong to their issuer", token(claims(iss="gamma")), BAD)


def late_tokens() -> Iterator[Vector]:
    for late in (0, 1, 86400):
        text = token(claims(iat=NOW - 90000, exp=NOW - late))
        yield vector(f"expired {late} s ago", "expired is now >= exp", text, EXPIRED)
    listed = {"revoked": [{"jti": "gone", "exp": NOW + 500}, {"jti": "old", "exp": NOW}]}
    revoked = {"revoked": json.dumps(listed)}
    yield vector("revoked", "a listed jti", token(claims(jti="gone")), REVOKED, **revoked)
    yield vector(
        "entry past its exp", "an entry past its own exp is read over", token(claims(jti="old")), "ok", **revoked
    )
    yield vector("other jti", "a jti is compared exactly", token(claims(jti="Gone")), "ok", **revoked)
    yield vector("no jti", "only a jti can be listed", token(claims()), "ok", **revoked)
    both = token(claims(jti="gone", iat=NOW - 90, exp=NOW - 1))
    yield vector("revoked and expired", "revoked is asked before expired", both, REVOKED, **revoked)
    bad = token(claims(jti="gone"), "a1")
    yield vector("revoked, bad signature", "the signature is asked before revoked", bad, BAD, **revoked)
    yield vector(
        "expired, bad signature", "the signature is asked before expired", token(claims(iat=1, exp=2), "a1"), BAD
    )
    yield vector("expired, unknown issuer", "the issuer is asked first", token(claims(iss="x", iat=1, exp=2)), UNKNOWN)
    malformed = token(claims(iss="x", scope=[], iat=1, exp=2), "a1")
    yield vector("malformed and all the rest", "the form is asked before everything", malformed, MALFORMED)


def issuers_files() -> Iterator[Vector]:
    def ok(name: str, text: str, count: int) -> Vector:
        return {"name": name, "text": text, "expect": "ok", "keys": count}

    def refused(name: str, text: str, number: int) -> Vector:
        return {"name": name, "text": text, "expect": "refused", "line": number}

    raw = public("a1")
    yield ok("empty", "", 0)
    yield ok("comments", "# one\n\n  \t\n# two", 0)
    yield ok("base64 of 32 bytes", f"a ed25519:{b64(raw)}\n", 1)
    yield ok("base64 of SubjectPublicKeyInfo", f"a ed25519:{b64(SPKI + raw)}\n", 1)
    yield ok("hex", f"a ed25519:{raw.hex()}\n", 1)
    yield ok("upper case hex", f"a ed25519:{raw.hex().upper()}\n", 1)
    yield ok("kid, tabs, comment, no line end", f"\ta\ted25519:{b64(raw)}   k-1.a:b_c # mine", 1)
    yield ok("CRLF", f"# x\r\na ed25519:{b64(raw)} k\r\n", 1)
    yield ok("two keys of one issuer", line("a", "a1", "k1") + line("a", "a2", "k2"), 2)
    yield ok("one key of two issuers", line("a", "a1") + line("b", "a1"), 2)
    yield ok("eleven keys with kid", "".join(line("a", f"m{n}", f"k{n}") for n in range(11)), 11)
    yield refused("eleven keys, the last without kid", "".join(line("a", f"m{n}") for n in range(11)), 11)
    for number, point in enumerate(small_order_points()):
        for form, text in (("base64", b64(point)), ("hex", point.hex()), ("SPKI", b64(SPKI + point))):
            yield refused(f"small order {number} as {form}", f"# x\nevil ed25519:{text} k\n", 2)
    bad = {
        "31 bytes": b64(raw[:31]),
        "33 bytes": b64(raw + b"x"),
        "empty": "",
        "63 hex digits": raw.hex()[:63],
        "base64url": "_" + b64(raw)[1:],
        "no padding": b64(raw).rstrip("="),
        "trailing bits": b64(raw)[:-2] + chr(ord(b64(raw)[-2]) + 1) + "=",
        "X25519 SPKI": b64(bytes.fromhex("302a300506032b656e032100") + raw),
        "Ed448 SPKI start": b64(bytes.fromhex("302a300506032b6571032100") + raw),
        "P-256 SPKI": b64(bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d030107034200") + raw + raw + b"x"),
        "y = p + 2, not canonical": b64((PRIME + 2).to_bytes(32, "little")),
        "PEM": "-----BEGIN",
    }
    for name, text in bad.items():
        yield refused(f"key: {name}", f"a ed25519:{text}\n", 1)
    for name, text in {
        "no scheme": f"a {b64(raw)}",
        "other scheme": f"a rsa:{b64(raw)}",
        "upper case scheme": f"a ED25519:{b64(raw)}",
        "one field": "a",
        "four fields": f"a ed25519:{b64(raw)} k x",
        "kid with a slash": f"a ed25519:{b64(raw)} k/1",
        "kid of 129": f"a ed25519:{b64(raw)} {'k' * 129}",
        "issuer of 257": f"{'i' * 257} ed25519:{b64(raw)}",
        "issuer with a bidi override": f"a\u202e ed25519:{b64(raw)}",
        "NUL": f"a\x00 ed25519:{b64(raw)}",
        "JSON": '{"issuers": []}',
    }.items():
        yield refused(name, f"{text}\n", 1)
    yield refused("kid twice", line("a", "a1", "k") + line("b", "a2", "k") + line("a", "a2", "k"), 3)
    yield refused("key twice", line("a", "a1", "k1") + "\n" + line("a", "a1", "k2"), 3)
    hidden = f"# comment\u2028evil ed25519:{b64(raw)}\n# x\x85evil ed25519:{b64(raw)}\n# y\revil ed25519:{b64(raw)}\n"
    yield ok("lines hidden in comments", hidden, 0)


def revoked_files() -> Iterator[Vector]:
    def ok(name: str, text: str, entries: dict[str, int]) -> Vector:
        return {"name": name, "text": text, "expect": "ok", "entries": entries}

    def refused(name: str, text: str, number: int = 1) -> Vector:
        return {"name": name, "text": text, "expect": "refused", "line": number}

    yield ok("empty list", '{"revoked": []}', {})
    yield ok("one", '{"revoked": [{"jti": "a", "exp": 5}]}', {"a": 5})
    yield ok(
        "spread", '\n{ "revoked" :\r\n[ { "jti" : "a" , "exp" : 5 } ,\n{"exp":6,"jti":"b"}\t] } \n', {"a": 5, "b": 6}
    )
    extra = '{"issued": 1.5, "next": null, "revoked": [{"jti": "a", "exp": 5, "why": {"x": ["y"]}}], "etag": "z"}'
    yield ok("further fields", extra, {"a": 5})
    yield ok(
        "twice, the later exp holds",
        '{"revoked": [{"jti":"a","exp":5},{"jti":"a","exp":9},{"jti":"a","exp":7}]}',
        {"a": 9},
    )
    yield ok("exp 0", '{"revoked": [{"jti": "a", "exp": 0}]}', {"a": 0})
    yield ok("escapes", '{"rev\\u006fked": [{"jti": "\\u0061", "exp": 5}]}', {"a": 5})
    for name, text in {
        "empty file": "",
        "white space": "  ",
        "array": '[{"jti": "a", "exp": 5}]',
        "null": "null",
        "no revoked": "{}",
        "other name": '{"Revoked": []}',
        "object": '{"revoked": {}}',
        "string": '{"revoked": "a"}',
        "null list": '{"revoked": null}',
        "twice": '{"revoked": [], "revoked": []}',
        "not closed": '{"revoked": [{"jti": "a", "exp": 5}',
        "cut in an entry": '{"revoked": [{"jti": "a", "ex',
        "trailing comma": '{"revoked": [{"jti": "a", "exp": 5},]}',
        "trailing comma of the object": '{"revoked": [],}',
        "something after": '{"revoked": []} x',
        "two documents": '{"revoked": []}{"revoked": []}',
        "a bare jti": '{"revoked": ["a"]}',
        "no jti": '{"revoked": [{"exp": 5}]}',
        "no exp": '{"revoked": [{"jti": "a"}]}',
        "empty jti": '{"revoked": [{"jti": "", "exp": 5}]}',
        "jti number": '{"revoked": [{"jti": 1, "exp": 5}]}',
        "exp string": '{"revoked": [{"jti": "a", "exp": "5"}]}',
        "exp float": '{"revoked": [{"jti": "a", "exp": 5.0}]}',
        "exp true": '{"revoked": [{"jti": "a", "exp": true}]}',
        "exp negative": '{"revoked": [{"jti": "a", "exp": -1}]}',
        "exp leading zero": '{"revoked": [{"jti": "a", "exp": 05}]}',
        "exp NaN": '{"revoked": [{"jti": "a", "exp": NaN}]}',
        "exp 2^64": '{"revoked": [{"jti": "a", "exp": 18446744073709551616}]}',
        "jti twice in an entry": '{"revoked": [{"jti": "a", "jti": "b", "exp": 5}]}',
        "comment": '{"revoked": [] /* none */}',
        "single quotes": "{'revoked': []}",
        "byte order mark": '\ufeff{"revoked": []}',
        "10,000 levels": '{"x": ' + "[" * 10_000 + "]" * 10_000 + ', "revoked": []}',
    }.items():
        yield refused(name, text)
    yield refused("the third line", '{"revoked": [\n{"jti": "a", "exp": 5},\n{"jti": "b"}\n]}', 3)


def files() -> dict[str, list[Vector]]:
    """Every vector file by its name."""
    families = (good_tokens, bad_forms, bad_payloads, bad_issuers_of_tokens, bad_signatures, late_tokens)
    return {
        "tokens.json": [found for family in families for found in family()],
        "issuers.json": list(issuers_files()),
        "revoked.json": list(revoked_files()),
    }


def text_of(vectors: list[Vector]) -> str:
    """One vector a line, so that a change shows as its line."""
    return "[\n" + ",\n".join(json.dumps(found) for found in vectors) + "\n]\n"


if __name__ == "__main__":
    for name, vectors in files().items():
        (FOLDER / name).write_text(text_of(vectors), encoding="utf-8")
        print(f"{name}: {len(vectors)} vectors")
