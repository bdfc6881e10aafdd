"""Cron expressions in words: the usual ones; of others nothing is said."""

from __future__ import annotations

from perdure.web.pages.cron_words import in_words
from tests.each import each

SAID = {
    "* * * * *": "every minute",
    "*/15 * * * *": "every 15 minutes",
    "0 * * * *": "every hour",
    "30 * * * *": "every hour at :30",
    "0 */6 * * *": "every 6 hours",
    "0 9 * * *": "every day at 09:00",
    "0 9,17 * * *": "every day at 09:00 and 17:00",
    "5 8 * * 1-5": "at 08:05 from Monday to Friday",
    "5 8 * * MON-FRI": "at 08:05 from Monday to Friday",
    "0 7 * * sun": "at 07:00 on Sunday",
    "0 7 * * 7": "at 07:00 on Sunday",
    "0 7 * * 0,3,6": "at 07:00 on Sunday, Wednesday and Saturday",
    "0 0 1 * *": "at 00:00 on day 1 of the month",
    "0 0 1,15 * *": "at 00:00 on days 1 and 15 of the month",
    "0 0 L * *": "at 00:00 on the last day of the month",
    "0 0 1 1,7 *": "at 00:00 on day 1 of the month in January and July",
    "*/10 9-17 * * 1-5": "every 10 minutes from 09:00 to 17:59 from Monday to Friday",
    "0 9 * * * Europe/Berlin": "every day at 09:00 (Europe/Berlin)",
}
NOT_SAID = (
    *("every 1 h 30 m", "", "* 9 * * *", "0 9 * * 1#2", "1-30/7 * * * *", "0 0 1 13 *"),
    *("0 0 * * 9", "0 9 * * xyz", "*/5 1,2 * * *", "nonsense", "0 9-17/2 * * *"),
)


@each(SAID)
def test_a_usual_expression_is_said_in_words(when: str) -> None:
    assert in_words(when) == SAID[when]


@each(NOT_SAID)
def test_of_another_nothing_is_said(when: str) -> None:
    assert in_words(when) == ""
