"""Functions of a Python file, without lambent.toml: lambent run app.py::greet Ada"""
import lambent

app = lambent.App("@NAME@")


@app.function(memory="256M")
def greet(name: str = "world") -> "dict[str, str]":
    print("greeting", name)  # `lambent logs @NAME@-greet` shows it
    return {"hello": name}


if __name__ == "__main__":  # sandboxes import the file too
    with app.run():  # deploys what has changed
        print(list(greet.map(["Ada", "Grace"])))
