def handler(event, context):
    """Where a pager would be called."""
    print("sensor %s is above %d degrees" % (event["sensor"], event["limit"]))
    return "above %d" % event["limit"]
