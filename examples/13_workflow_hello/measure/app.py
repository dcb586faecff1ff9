def handler(event, context):
    return {"number": event["number"], "letters": len(event["word"])}
