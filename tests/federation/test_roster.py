"""Who is put aside, for how long, and who comes back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from prism_fcp.federation.agreement import Patience
from prism_fcp.federation.roster import LONGEST_REASON, MOST_REASONS, Roster


def one(**patience: int) -> Roster:
    made = Roster(("north", "east"), Patience(**patience))
    made[0].joined = True
    return made


def test_repeated_offences_put_aside_for_twice_as_long_each_time() -> None:
    roster, number, asides = one(offences=2, aside=3), 1, []
    for _ in range(4):
        assert roster.asked(0, number)
        assert roster.refuse(0, number, "NaN") is None
        told = roster.silence(0, number + 1, "no answer")
        assert told is not None and "after 2 refused or missing answers in a row; last: no answer" in told
        back = number + 2
        while not roster.asked(0, back):
            back += 1
        asides.append(back - (number + 2))
        number = back
    assert asides == [3, 6, 12, 24]
    assert (roster[0].refused, roster[0].silent, roster[0].times_aside) == (4, 4, 4)
    assert not roster.asked(1, 99)  # never joined


def test_an_answer_ends_a_row_of_offences() -> None:
    roster = one(offences=2)
    for number in range(1, 9, 2):
        assert roster.refuse(0, number, "NaN") is None
        roster.answered(0, 10)
    assert roster[0].answers == 4 and roster[0].bytes_up == 40 and not roster[0].times_aside


@given(st.lists(st.sampled_from(["refuse", "silence", "answer", "note"]), max_size=80))
def test_it_is_saved_whole_and_what_has_only_begun_is_not(played: list[str]) -> None:
    roster = one(offences=3)

    def play(actions: list[str]) -> None:
        for number, action in enumerate(actions):
            match action:
                case "answer":
                    roster.answered(0, 4)
                case "note":
                    roster.note(0, number, "x" * 1000)
                case _:
                    getattr(roster, action)(0, number, "because")

    half = len(played) // 2
    play(played[:half])
    before = roster.to_json()
    roster.hold()
    play(played[half:])
    assert roster.kept() == before
    after = roster.to_json()
    roster.release()
    assert roster.kept() == after
    again = Roster(("north", "east"), Patience())
    again.restore(roster.to_json())
    assert again.to_json() == after
    assert len(after[0]["reasons"]) <= MOST_REASONS and all(len(r) <= LONGEST_REASON for r in after[0]["reasons"])
