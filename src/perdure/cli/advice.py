"""Advice for people at a shell: errors say what to do in Python, commands say it in commands.

Errors are raised by the client, for its callers. Each way out that one of them names in Python
and that is a command has a line here; a test holds that none is forgotten.
"""

from __future__ import annotations

import re

_COMMANDS = tuple(
    (re.compile(pattern), command)
    for pattern, command in (
        (r"client\.handle\(['\"](.+?)['\"]\)\.unpark\(\)", r"perdure unpark \1"),
        (r"handle\.unpark\(\) (lets it be tried again) \((perdure unpark .+?)\)", r"\2 \1"),
        (r"handle\.unpark\(\)", "perdure unpark ID"),
        (r" result\(\) goes on waiting; if_held=\"raise\" ends it", " It is waited for."),
        (r"handle\.reset\(before\(call\)\)", "perdure reset ID --before CALL"),
        (r"handle\.reset\(at_event\((\d+)\)\)", r"perdure reset ID --event \1"),
        (r"\bat_event takes\b", "--event takes"),
        (
            r"before\(call\), after\(call\) or at_event\(n\) of perdure\.repair",
            "--before CALL, --after CALL or --event N",
        ),
        (r"go back to before\((.+?)\), or name", r"go back with --before \1, or name"),
        (r"with nth=", "with --nth"),
        (
            r"make the handle with .+?\.with_options\(version=\.\.\.\)",
            "name a version of its own with --version",
        ),
        (r"handle\.history\(\)", "perdure history ID"),
        (
            r"handle\.jobs\(\) and client\.dead_jobs\(\) return",
            "perdure job list ID and perdure job list --dead print",
        ),
        (r"handle\.jobs\(\)", "perdure job list ID"),
        (r"client\.dead_jobs\(\)", "perdure job list --dead"),
        (
            r"client\.schedule\(.+?\)\.resume\(\) lets it go on \((perdure schedule resume .+?)\)",
            r"\1 lets it go on",
        ),
        (r"client\.schedules\(\) has all", "perdure schedule list shows all"),
        (r"client\.instances\(waits=\.\.\.\), as perdure list does,", "perdure list"),
        (r"client\.instances\(parent=\.\.\.\)", "perdure list parent:ID"),
        (r"with tree\(calls=False\)", "with --no-calls"),
        (r"client\.state\(\.\.\., at=\)", "its states with perdure decider state NAME ID --at N"),
        (r"try an input with client\.dry_run", "try an input with perdure decider try"),
        (r"use client\.state\b", "use perdure decider state NAME ID"),
        (r"use client\.execute\(decider, input\)", "use perdure decider execute"),
        (r"client\.events_json\(\.\.\.\) needs none", "perdure decider events needs none"),
        (
            r"ask an Engine that has it, or a server whose engine does",
            "name the file or module that has it with --target",
        ),
        (
            r"start it with \.with_options\(if_exists=\"terminate\"\)",
            "use perdure start NAME --id ID --if-exists terminate",
        ),
        (
            r"say what to do with \.with_options\(if_exists=\"restart\" \| \"terminate\"\)",
            "say --if-exists restart, or --if-exists terminate",
        ),
        (r", not '([^']+)': leave instance_id out", r", as it says itself, not \1"),
        (r"or delete with force=True, which drops", "or delete with --force, which drops"),
        (
            r"this needs a token \(Authorization: Bearer \.\.\.\) or the key of the server: "
            r"open the address that it printed when it started",
            "it needs a token: make one with perdure token NAME where the server is, and put it "
            "into $PERDURE_TOKEN here",
        ),
        (
            r"client\.inbox\(\) lists what is there",
            "perdure inbox list ID shows what is there",
        ),
        (r"(input of decider '[^']*', \S+: )stored is ", r"\1the value is "),
        (r"\bexpect=([\d,]+), but", r"\1 were expected, but"),
        (r"\b(\w+)_all is for", r"`perdure \1` is for"),
    )
)


def in_commands(text: str) -> str:
    """Return what an error says, with what to do as commands and their flags."""
    for pattern, command in _COMMANDS:
        text = pattern.sub(command, text)
    return text
