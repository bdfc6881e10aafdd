"""The client and the handle for callers that reach the store over HTTP.

`connection` asks the server and turns its problem documents into the errors of `perdure.errors`;
`client` and `handle` have the methods of `Client` and `Handle`, each of which is a route of the API
or is refused with a sentence that says why.
"""
