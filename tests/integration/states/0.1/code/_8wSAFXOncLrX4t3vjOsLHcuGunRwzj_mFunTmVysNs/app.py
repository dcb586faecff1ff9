
def handler(event, context):
    raise ValueError("no luck")
