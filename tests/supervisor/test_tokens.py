"""Minted tokens: mutants, clocks, caches, the ladder's order, and any bytes at all (T-01 to T-16)."""

from __future__ import annotations

import base64
import contextlib
import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.clock import ManualClock
from supervisor import credentials
from supervisor.credentials import Denied, Tables, Verifier
from supervisor.issuers import TRIED_MAX, parse_issuers
from supervisor.keys import Identity, KeysFileError, Scope, parse_keys
from supervisor.revoked import RevokedTable, parse_revoked
from supervisor.tokens import MalformedError, decode_segment, encode_segment, parse
from tests.vectors.generate import NOW, claims, line, token

ISSUERS = line("beta", "b1")
GONE = json.dumps({"revoked": [{"jti": "gone", "exp": NOW + 100}]})
ADA = Identity("ada", ("notes",), Scope.WRITE, minted=True)


class Bench:
    """A verifier whose tables and clock a test moves."""

    def __init__(self, issuers: str = ISSUERS) -> None:
        self.tables = Tables(issuers=parse_issuers(issuers, 1))
        self.clock = ManualClock(NOW * 1000)
        self.verifier = Verifier(lambda: self.tables, self.clock.now_ms)

    def ask(self, text: str) -> str:
        found = self.verifier.identify(f"Bearer {text}")
        return found.refusal.name if isinstance(found, Denied) else "ok"


def test_a_token_names_its_subject_brain_and_scope_a_mint_03() -> None:
    assert Bench().verifier.identify(f"Bearer {token(claims())}") == ADA


def test_no_single_changed_character_is_accepted_t_03() -> None:
    bench, good = Bench(), token(claims())
    alphabet = string.ascii_letters + string.digits + "-_.=+/ \n"
    for at in range(len(good)):
        for sign in {alphabet[(at * 7 + step) % len(alphabet)] for step in range(0, 69, 9)} - {good[at]}:
            assert bench.ask(good[:at] + sign + good[at + 1 :]) != "ok", (at, sign)
        assert bench.ask(good[:at] + good[at + 1 :]) != "ok"
    assert bench.ask(good) == "ok"


def test_every_other_spelling_of_a_segment_is_malformed_t_02() -> None:
    """1,000 mutants and more: every byte string whose last character carries unused bits, every junk character."""
    count = 0
    for size in (1, 2, 4, 5, 64):
        for number in range(40):
            data = bytes((number * 31 + at * 7) % 256 for at in range(size))
            text = encode_segment(data)
            assert decode_segment(text) == data
            spellings = [f"{text}=", f"{text}==", f" {text}", f"{text}\n", text[:1] + "\n" + text[1:], f"{text}é"]
            last = (string.ascii_uppercase + string.ascii_lowercase + string.digits + "-_").index(text[-1])
            alphabet = string.ascii_uppercase + string.ascii_lowercase + string.digits + "-_"
            unused = {1: 4, 2: 2, 0: 0}[len(data) % 3]
            spellings += [text[:-1] + alphabet[last ^ flip] for flip in range(1, 1 << unused)]
            for spelling in spellings:
                count += 1
                with pytest.raises(MalformedError):
                    decode_segment(spelling)
    assert count >= 1000


def test_what_does_not_begin_with_bk1_is_a_static_key_known_or_not_t_01() -> None:
    bench, text = Bench(), token(claims())
    for other in (f"BK1{text[3:]}", f"bk2{text[3:]}", text[4:], f"x{text}", "bk1"):
        assert bench.ask(other) == "UnauthenticatedError"
    assert bench.ask("bk1." + "A" * 65_536) == "BRAINY_KEY_MALFORMED"
    assert bench.verifier.signatures_tried == 0


@given(
    st.one_of(st.text(max_size=200), st.binary(max_size=200).map(lambda data: base64.urlsafe_b64encode(data).decode()))
)
def test_any_text_is_a_token_or_malformed(text: str) -> None:
    """Whatever follows `bk1.`, the parser gives a token or a MalformedError."""
    for form in (f"bk1.{text}", f"bk1.{text}.{'A' * 86}"):
        with contextlib.suppress(MalformedError):
            assert len(parse(form, NOW).signature) == 64


@given(st.binary(max_size=300))
def test_any_signed_payload_is_accepted_or_refused_by_name(payload: bytes) -> None:
    """The signature holds over whatever was signed; then the form alone decides."""
    assert Bench().ask(token(payload)) == "BRAINY_KEY_MALFORMED"


@given(st.text(max_size=300))
def test_any_text_is_an_issuers_file_or_refused_by_line(text: str) -> None:
    with contextlib.suppress(KeysFileError):
        assert parse_issuers(text).count >= 0


@given(st.one_of(st.text(max_size=300), st.text(max_size=100).map(lambda text: '{"revoked": [' + text + "]}")))
def test_any_text_is_a_revoked_file_or_refused_by_line(text: str) -> None:
    with contextlib.suppress(KeysFileError):
        assert all(type(until) is int for until in parse_revoked(text).expires.values())


def test_an_expired_token_does_not_revive_when_the_clock_steps_back_t_14() -> None:
    bench, text = Bench(), token(claims(exp=NOW + 10))
    assert bench.ask(text) == "ok"
    bench.clock.advance_ms(10_000)
    assert bench.ask(text) == "BRAINY_KEY_EXPIRED"
    bench.clock.advance_ms(-3_600_000)
    assert bench.ask(text) == "BRAINY_KEY_EXPIRED"
    assert bench.ask(token(claims(exp=NOW + 20))) == "ok"


def test_expiry_and_revocation_are_asked_of_a_remembered_token_too() -> None:
    bench, text = Bench(), token(claims(jti="gone"))
    assert [bench.ask(text), bench.ask(text)] == ["ok", "ok"]
    assert bench.verifier.signatures_tried == 1
    listed = parse_revoked(GONE)
    bench.tables = Tables(issuers=bench.tables.issuers, revoked=listed)
    assert bench.ask(text) == "BRAINY_KEY_REVOKED"
    bench.tables = Tables(issuers=bench.tables.issuers, revoked=RevokedTable())
    assert bench.ask(text) == "ok"
    bench.clock.advance_ms(600_000)
    assert bench.ask(text) == "BRAINY_KEY_EXPIRED"
    assert bench.verifier.signatures_tried == 1


def test_another_issuers_table_forgets_what_was_verified_under_the_last() -> None:
    bench, text = Bench(), token(claims())
    assert bench.ask(text) == "ok"
    bench.tables = Tables(issuers=parse_issuers(line("beta", "b2"), 2))
    assert bench.ask(text) == "BRAINY_KEY_BAD_SIGNATURE"
    bench.tables = Tables(issuers=parse_issuers("", 3))
    assert bench.ask(text) == "BRAINY_KEY_UNKNOWN_ISSUER"
    bench.tables = Tables(issuers=parse_issuers(ISSUERS, 4))
    assert bench.ask(text) == "ok"


def test_only_successes_are_remembered_and_no_more_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "REMEMBERED_MAX", 3)
    bench = Bench()
    for number in range(6):
        assert bench.ask(token(claims(jti=str(number)))) == "ok"
        assert bench.ask(token(claims(jti=str(number)), "a1")) == "BRAINY_KEY_BAD_SIGNATURE"
    assert len(bench.verifier._verified) == 3
    tried = bench.verifier.signatures_tried
    assert bench.ask(token(claims(jti="5"))) == "ok"
    assert bench.verifier.signatures_tried == tried


def test_a_token_without_kid_costs_ten_verifications_at_most_t_12() -> None:
    lines = "".join(line("beta", f"x{number}", f"k{number}") for number in range(20))
    bench = Bench(lines)
    assert bench.ask(token(claims())) == "BRAINY_KEY_BAD_SIGNATURE"
    assert bench.verifier.signatures_tried == TRIED_MAX
    assert bench.ask(token(claims(kid="k15"), "x15")) == "ok"
    assert bench.verifier.signatures_tried == TRIED_MAX + 1


def test_what_counts_as_a_guess() -> None:
    bench = Bench()
    listed = parse_revoked(GONE)
    bench.tables = Tables(parse_keys(""), bench.tables.issuers, listed)
    counted = {
        "Bearer unknown-key": True,
        "Basic YTpi": True,
        "Bearer bk1.x": True,
        f"Bearer {token(claims(iss='x'))}": True,
        f"Bearer {token(claims(), 'a1')}": True,
        f"Bearer {token(claims(jti='gone'))}": False,
        f"Bearer {token(claims(iat=NOW - 90, exp=NOW - 1))}": False,
        "": False,
        "  ": False,
    }
    for credential, guess in counted.items():
        found = bench.verifier.identify(credential)
        assert isinstance(found, Denied)
        assert found.guess is guess, credential
    absent = bench.verifier.identify(None)
    assert isinstance(absent, Denied)
    assert not absent.guess


def test_who_it_was_is_known_once_the_signature_held() -> None:
    bench = Bench()
    expired = bench.verifier.identify(f"Bearer {token(claims(iat=NOW - 90, exp=NOW - 1))}")
    forged = bench.verifier.identify(f"Bearer {token(claims(), 'a1')}")
    assert isinstance(expired, Denied)
    assert isinstance(forged, Denied)
    assert (expired.principal, forged.principal) == ("ada", None)


def test_wrong_static_credentials_are_one_refusal_and_one_work_t_21(monkeypatch: pytest.MonkeyPatch) -> None:
    """T-22 in structure: known, unknown and missing keys cost the same digest, look-up and comparison."""
    import hmac

    from supervisor import keys

    secret = "Zt3-8kQw_51mVbXc9LrYp0"
    compared: list[tuple[int, int]] = []
    really = hmac.compare_digest

    def compare(left: bytes, right: bytes) -> bool:
        compared.append((len(left), len(right)))
        return really(left, right)

    monkeypatch.setattr(keys.hmac, "compare_digest", compare)
    bench = Bench()
    bench.tables = Tables(parse_keys(f"alice {secret} * read\n"))
    documents = set()
    wrong = (None, "", "Bearer", "Bearer x", f"Basic {secret}", f"Bearer {secret}x", f"Bearer {secret[:-1]}", secret)
    for credential in wrong:
        found = bench.verifier.identify(credential)
        assert isinstance(found, Denied)
        documents.add(str(found.refusal.document()))
    assert isinstance(bench.verifier.identify(f"Bearer {secret}"), Identity)
    assert len(documents) == 1
    assert compared == [(32, 32)] * (len(wrong) + 1)


@pytest.mark.parametrize(
    "credential",
    [
        "Bearer\t{}",
        "Bearer {}\n",
        "Bearer {},{}",
        "Bearer {}, Bearer {}",
        "Bearer {}\0",
        "Token {}",
        "Bearer\u00a0{}",
        "{}",
    ],
)
def test_only_the_documented_form_of_the_header_is_taken_t_23(credential: str) -> None:
    secret = "Zt3-8kQw_51mVbXc9LrYp0"
    bench = Bench()
    bench.tables = Tables(parse_keys(f"alice {secret} * read\n"))
    assert isinstance(bench.verifier.identify(credential.replace("{}", secret)), Denied)
