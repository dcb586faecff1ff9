# Fails at line 4: the lines before are no workflow: components[0].input: '$nothing': there is no component 'nothing'
workflow traffic
component detect calls detector input "$nothing"
at 0s start with 1
