"""What a schedule is for: a report of the last hour, or of all. It may run twice, so it says which hour it is of."""
import datetime


def handler(event, context):
    if event.get("full"):
        return {"of": "all"}
    # The time that was due, not the time that it is now: a call that waited is still of its own hour.
    due = datetime.datetime.strptime(event["time"], "%Y-%m-%dT%H:%M:%SZ")
    of = due - datetime.timedelta(hours=1)
    print("report of the hour from", of)
    return {"of": of.strftime("%Y-%m-%dT%H:%M:%SZ")}
