"""Create and edit, when it is saved: shown before, never over what others did, and nothing that was typed is lost."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from playwright.sync_api import expect
from tests.api.conftest import schedule
from tests.ui.conftest import COOKIE, Console
from tests.ui.forms import begun, field, reviewed
from tests.ui.forms import started as started


def a_new_schedule_is_shown_and_then_created(console: Console):
    page = begun(console.open("/new"), id="made/here", cron="0 4 * * *")
    dialog = reviewed(page)
    expect(dialog).to_contain_text("14 launches")
    expect(dialog.get_by_role("button", name="Create it")).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url("**/schedules/made/here")
    assert console.service.ask("GET", "/v1/schedules/made/here").json["cron"] == "0 4 * * *"


def a_difference_names_fields_and_launches_before_it_is_saved(console: Console):
    hour = (datetime.now(UTC).hour + 12) % 24  # not between the two moments
    console.service.create("moved/one", cron=f"0 {hour} * * *", retry={"limit": 2})
    page = console.open("/schedules/moved/one:edit")
    expect(page.locator("#to-mend")).to_have_text("Nothing has changed.")
    field(page, "cron").fill(f"30 {hour} * * *")
    page.get_by_text("When it fails").click()
    field(page, "retry-limit").fill("3")
    dialog = reviewed(page)
    expect(dialog).to_contain_text("2 fields change")
    expect(dialog.get_by_role("row", name="retry.limit 2 3")).to_be_visible()
    expect(dialog).to_contain_text("14 move")
    dialog.get_by_role("button", name="Save it").click()
    page.wait_for_url("**/schedules/moved/one")
    kept = console.service.ask("GET", "/v1/schedules/moved/one").json
    assert (kept["version"], kept["cron"], kept["retry"]["limit"]) == (2, f"30 {hour} * * *", 3)


def an_edit_in_between_loses_nothing_of_either(console: Console):
    service = console.service
    service.create("two/hands", cron="0 4 * * *", labels={"team": "a"})
    console.expects("412")
    page = console.open("/schedules/two/hands:edit")
    field(page, "description").fill("mine")
    dialog = reviewed(page)
    theirs = schedule("two/hands", cron="0 5 * * *", labels={"team": "b"})
    actor = {"tocsin-actor": "ada"}
    assert service.ask("PUT", "/v1/schedules/two/hands", theirs, actor).status == 200
    dialog.get_by_role("button", name="Save it").click()
    expect(dialog).to_contain_text("Somebody changed it meanwhile")
    expect(dialog).to_contain_text("edited by local:ada")
    expect(dialog.get_by_role("row", name="cron 0 4 * * * 0 5 * * *")).to_be_visible()
    assert service.ask("GET", "/v1/schedules/two/hands").json["description"] == ""
    dialog.get_by_role("button", name="Put my changes onto it").click()
    dialog.get_by_role("button", name="Save it").click()
    page.wait_for_url("**/schedules/two/hands")
    kept = service.ask("GET", "/v1/schedules/two/hands").json
    assert (kept["version"], kept["cron"], kept["labels"], kept["description"]) == (
        3,
        "0 5 * * *",
        {"team": "b"},
        "mine",
    )


def the_newest_can_be_loaded_and_mine_be_taken_back(console: Console):
    service = console.service
    service.create("two/minds", cron="0 4 * * *")
    page = console.open("/schedules/two/minds:edit")
    field(page, "description").fill("mine")
    service.ask("PUT", "/v1/schedules/two/minds", schedule("two/minds", cron="0 5 * * *"))
    expect(page.get_by_text("Somebody changed this schedule while you were writing.")).to_be_visible()
    page.get_by_role("button", name="See what changed").click()
    page.get_by_role("button", name="Drop mine, load the newest").click()
    expect(field(page, "cron")).to_have_value("0 5 * * *")
    expect(field(page, "description")).to_have_value("")
    page.get_by_role("button", name="Undo").click()
    expect(field(page, "description")).to_have_value("mine")
    expect(field(page, "cron")).to_have_value("0 4 * * *")


def what_was_typed_survives_a_refused_save(console: Console):
    console.expects("409")
    page = begun(console.open("/new"), id="taken/soon", cron="0 4 * * *")
    field(page, "description").fill("typed with care")
    dialog = reviewed(page)
    console.service.create("taken/soon", cron="0 6 * * *")
    dialog.get_by_role("button", name="Create it").click()
    expect(dialog).to_be_hidden()
    expect(page.locator("#wrong-id")).to_be_visible()
    expect(field(page, "id")).to_be_focused()
    expect(field(page, "description")).to_have_value("typed with care")


def what_was_typed_survives_a_reload_and_leaving_is_asked_about(console: Console):
    page = begun(console.open("/new"), id="kept/here", cron="not yet")
    asked: list[str] = []

    def agree(dialog):
        asked.append(dialog.type)
        dialog.accept()

    page.on("dialog", agree)
    page.reload()
    assert asked == ["beforeunload"]
    expect(field(page, "id")).to_have_value("kept/here")
    expect(field(page, "cron")).to_have_value("not yet")
    expect(page.get_by_role("radio", name="null")).to_be_checked()
    page.get_by_role("button", name="Discard it").click()
    expect(field(page, "id")).to_have_value("")


def a_save_waits_for_a_service_that_is_away(started: Callable[..., Console]):
    console = started()
    console.expects("ERR_CONNECTION_REFUSED")
    page = begun(console.open("/new"), id="patient/one")
    dialog = reviewed(page)
    assert console.service.stop() == 0
    dialog.get_by_role("button", name="Create it").click()
    expect(dialog).to_contain_text("The service does not answer. What you typed is kept. Trying again")
    again = started("--listen", f"127.0.0.1:{console.service.port}")
    page.wait_for_url("**/schedules/patient/one")
    assert again.service.ask("GET", "/v1/schedules/patient/one").json["cron"] == "30 2 * * *"


def a_copy_gets_an_id_of_its_own(console: Console):
    console.service.create("copied/from", cron="0 4 * * *", labels={"team": "a"})
    page = console.open("/new?like=copied/from")
    expect(field(page, "id")).to_have_value("")
    expect(field(page, "cron")).to_have_value("0 4 * * *")
    expect(field(page, "labels")).to_have_value("team=a")


def what_was_typed_survives_the_end_of_a_login(guarded_console: Console):
    guarded_console.expects("401")
    token = guarded_console.service.token
    page = begun(guarded_console.open("/new", token=token), id="kept/too")
    page.context.clear_cookies()
    field(page, "description").fill("typed with care")
    expect(page.locator("#to-mend")).to_contain_text("Your login has ended; what you typed is kept.")
    page.get_by_role("link", name="Log in").click()
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in").click()
    expect(field(page, "description")).to_have_value("typed with care")
    expect(page.get_by_text("What you had typed before is here again.")).to_be_visible()
    assert any(each["name"] == COOKIE for each in page.context.cookies())


def a_schedule_that_was_deleted_meanwhile_can_be_created_again(console: Console):
    console.expects("412|404")
    console.service.create("gone/soon", cron="0 4 * * *")
    page = console.open("/schedules/gone/soon:edit")
    field(page, "description").fill("mine")
    dialog = reviewed(page)
    assert console.service.ask("DELETE", "/v1/schedules/gone/soon").status == 204
    dialog.get_by_role("button", name="Save it").click()
    expect(dialog).to_contain_text("gone/soon was deleted")
    expect(dialog).to_contain_text("deleted by local")
    dialog.get_by_role("button", name="Create it").click()
    page.wait_for_url("**/schedules/gone/soon")
    assert console.service.ask("GET", "/v1/schedules/gone/soon").json["description"] == "mine"


def an_edit_as_json_meets_an_edit_in_between(console: Console):
    service = console.service
    service.create("two/texts", cron="0 4 * * *", payload={"n": 1})
    page = console.open("/schedules/two/texts:edit")
    page.get_by_role("button", name="As JSON").click()
    text = field(page, "json").input_value()
    field(page, "json").fill(text.replace("0 4", "0 6"))
    service.ask("PUT", "/v1/schedules/two/texts", schedule("two/texts", cron="0 4 * * *", payload={"n": 2}))
    expect(page.get_by_text("Somebody changed this schedule while you were writing.")).to_be_visible()
    page.get_by_role("button", name="See what changed").click()
    page.get_by_role("button", name="Put my changes onto it").click()
    page.get_by_role("button", name="Save it").click()
    page.wait_for_url("**/schedules/two/texts")
    kept = service.ask("GET", "/v1/schedules/two/texts").json
    assert (kept["cron"], kept["payload"]) == ("0 6 * * *", {"n": 2})
