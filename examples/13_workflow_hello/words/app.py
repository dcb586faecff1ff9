def handler(event, context):
    return event["text"].lower().split()
