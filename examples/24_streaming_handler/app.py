"""Tells a story word by word, as a language model does.

By an event, {"words": 5}, or by its URL, /f/story/?words=5.
"""
import time

STORY = "Once upon a time there was a function that answered before it had finished thinking".split()


def handler(event, context):
    query = event.get("queryStringParameters", event)
    count = int(query.get("words", len(STORY)))
    if "requestContext" in event:
        # The first thing that it yields may say what the response is.
        yield {"statusCode": 200, "headers": {"Content-Type": "text/event-stream"}}
    for word in STORY[:count]:
        yield f"data: {word}\n\n" if "requestContext" in event else word + " "
        time.sleep(0.05)
