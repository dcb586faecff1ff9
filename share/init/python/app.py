# What stands here runs once for each process; the handler runs for every invocation.


def handler(event, context):
    print("asked by", context.aws_request_id)  # `lambent logs @NAME@` shows it
    return {"hello": event.get("name", "world")}
