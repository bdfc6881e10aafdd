"""Who may do what over HTTP, what is on record of it, and what others may see."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

SECURITY = "tests/web/test_security.py::"
AUDIT = "tests/web/test_audit.py::"
HOOKS = "tests/web/test_hooks.py::"
RECENT = "tests/web/test_recent_pages.py::"
REMOTE = "tests/web/test_remote.py::"

DOORS = (
    Mutant(
        "hosts-are-not-checked",
        "a page of another site reads through a name that leads here (DNS rebinding)",
        "web/gate.py",
        "        if name not in hosts:",
        "        if False:",
        (f"{SECURITY}test_a_host_that_is_not_ours_is_421",),
    ),
    Mutant(
        "origins-are-not-checked",
        "a page of another site changes something here",
        "web/gate.py",
        '        if is_other or site not in ("same-origin", "none"):',
        "        if False:",
        (f"{SECURITY}test_a_page_of_another_site_changes_nothing",),
    ),
    Mutant(
        "cookies-need-no-mark",
        "a cookie alone lets a page change something",
        "web/gate.py",
        "            if is_ambient:\n                self._check_csrf(request, access)",
        "            if False:\n                self._check_csrf(request, access)",
        (f"{SECURITY}test_a_cookie_without_the_mark_of_the_page_changes_nothing",),
    ),
    Mutant(
        "read-only-servers-act",
        "a server that only shows does what it is asked",
        "web/gate.py",
        '            access = Access(who=access.who, scopes=frozenset({"read"}))',
        "            access = Access(who=access.who)",
        (f"{SECURITY}test_read_only_shows_and_changes_nothing",),
    ),
    Mutant(
        "scopes-are-not-asked-for",
        "who may only read does everything",
        "web/gate.py",
        "    if scope in access.scopes:\n        return",
        "    return",
        (f"{SECURITY}test_a_scope_that_is_missing_is_403_and_nothing_is_done",),
    ),
    Mutant(
        "guesses-are-not-counted",
        "an address may try tokens without end",
        "web/gate.py",
        "        if token is None:\n            self._failures.add(_address(request))",
        "        if token is None:\n            pass",
        (f"{SECURITY}test_an_address_that_keeps_guessing_is_not_listened_to",),
    ),
    Mutant(
        "tokens-never-end",
        "a token that is over is let in",
        "web/access.py",
        "found.expires_at is not None and found.expires_at <= now",
        "False",
        (f"{SECURITY}test_a_token_that_is_over_is_no_token",),
    ),
    Mutant(
        "tokens-are-kept-as-they-are",
        "who reads the configuration of a server can use its tokens",
        "web/access.py",
        "    return sha256(text.encode()).hexdigest()",
        "    return text.removeprefix(TOKEN_PREFIX)",
        (f"{SECURITY}test_a_token_is_kept_as_its_hash",),
    ),
    Mutant(
        "cursors-are-not-signed",
        "a caller makes cursors of its own",
        "web/cursors.py",
        "    if not hmac.compare_digest(",
        "    if False and not hmac.compare_digest(",
        (f"{SECURITY}test_a_page_has_500_at_most_and_a_cursor_is_ours",),
    ),
    Mutant(
        "exports-show-what-is-masked",
        "an export has the fields that a server hides",
        "web/api/instances.py",
        "    if settings.mask:",
        "    if False:",
        (f"{SECURITY}test_masked_fields_are_never_shown",),
    ),
    Mutant(
        "actions-are-not-recorded-before",
        "an action is done although there is no row of it",
        "web/operations.py",
        "            await audit.keep(ASKED)\n",
        "",
        (f"{AUDIT}test_nothing_is_done_that_cannot_be_put_on_record",),
    ),
    Mutant(
        "audit-failures-are-passed-over",
        "an action is done although its row could not be written",
        "web/audit.py",
        "        if row.outcome == ASKED:\n            raise",
        "        if False:\n            raise",
        (f"{AUDIT}test_nothing_is_done_that_cannot_be_put_on_record",),
    ),
    Mutant(
        "hooks-take-any-promise",
        "a hook keeps promises that it was not made for",
        "web/hooks.py",
        "    if promise is None:\n        raise PromiseNotFoundError(token)",
        "    if promise is None:\n        promise = next(iter(promises.values()))",
        (f"{HOOKS}test_wrong_tokens_are_answered_as_paths_that_are_not_there",),
    ),
    Mutant(
        "hooks-are-not-verified",
        "a call whose sender signed something else keeps a promise",
        "web/hooks.py",
        "    if verify is not None and not await verify(_with_body(request, body)):",
        "    if False:",
        (f"{HOOKS}test_the_senders_signature_is_checked_before_the_body_is_looked_into",),
    ),
    Mutant(
        "pages-are-shared-with-others",
        "a page that was made for one caller, with its mark, is sent to another",
        "web/pages/routes.py",
        "        *(access.who, access.scopes),\n",
        "",
        (f"{RECENT}test_a_page_that_was_made_for_one_caller_is_not_sent_to_another",),
    ),
    Mutant(
        "pages-outlive-actions",
        "an open page shows what was so before the action that was done on it",
        "web/operations.py",
        "                site.forget_counts()",
        "                pass",
        (f"{RECENT}test_an_open_page_shows_what_was_done_here_at_once",),
    ),
    Mutant(
        "signals-that-start-have-no-id",
        "a signal that starts its instance comes twice when its request is repeated",
        "web/api/actions.py",
        "    delivery = signal_delivery(instance_id, signal, body.value, message_id=message_id)",
        "    delivery = signal_delivery(instance_id, signal, body.value)",
        (f"{REMOTE}test_a_signal_that_starts_is_sent_once_under_its_key",),
    ),
    Mutant(
        "repeated-signals-find-an-end",
        "a request that is repeated after the end of its instance is told that it failed",
        "client/acting/start_and_ask.py",
        "if message_id not in await core.store.deciders.read_receipts(instance_id, [message_id]):",
        "if True:",
        (f"{REMOTE}test_a_signal_that_starts_is_sent_once_under_its_key",),
    ),
    Mutant(
        "carried-messages-have-no-number",
        "a message that the execution before had not taken cannot be removed over HTTP",
        "web/api/actions.py",
        'r"-?[0-9]{1,30}"',
        'r"[0-9]{1,30}"',
        (f"{REMOTE}test_a_message_that_was_carried_over_is_dropped",),
    ),
)
