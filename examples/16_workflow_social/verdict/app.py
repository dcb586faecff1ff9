"""From scores of a post's text and probabilities of its picture's classes to a verdict."""


def handler(event, context):
    text, picture = event["text"]["data"], event["picture"]["data"]
    best = max(range(len(picture)), key=picture.__getitem__)
    # The first token stands for the whole text: two scores.
    return {"kind": "first" if text[0] >= text[1] else "second", "picture_class": best,
            "sure": round(picture[best], 4)}
