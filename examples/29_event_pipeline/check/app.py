LIMITS = [60, 80]


def handler(event, context):
    """A reading in Fahrenheit becomes one in Celsius, with the limits that it is above."""
    if "sensor" not in event or not isinstance(event.get("fahrenheit"), (int, float)):
        raise ValueError("a reading has a sensor and degrees fahrenheit: %r" % (event,))
    celsius = round((event["fahrenheit"] - 32) / 1.8, 1)
    return {"sensor": event["sensor"], "celsius": celsius, "alarms": [limit for limit in LIMITS if celsius > limit]}
