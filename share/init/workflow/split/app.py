def handler(event, context):
    return event["text"].split()
