"""Runs Python handlers: the client side of the AWS Lambda Runtime API. Start with python3 -m lambent_runtime."""
