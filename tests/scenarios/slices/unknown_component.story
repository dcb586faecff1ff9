# Fails at line 4: there is no component 'paint' before
slice 1 1g.10gb
function blur
component sharpen takes 1s after paint
