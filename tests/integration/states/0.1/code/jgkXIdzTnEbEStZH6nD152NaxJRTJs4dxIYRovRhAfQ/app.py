
import os
def handler(event, context):
    return {"n": event["n"] + 1, "stage": os.environ["STAGE"]}
