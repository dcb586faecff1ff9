// slice_scenario_runner FILE...: plays scenarios of slice scheduling; says which line of which did
// not come true. See ../README.md for the language.
#include <memory>

#include "tests/scenarios/slices/given.h"
#include "tests/scenarios/slices/stage.h"
#include "tests/scenarios/story.h"

int main(int count, char** arguments) {
  using lambent::slice_scenario::Given;
  using lambent::slice_scenario::Stage;
  return lambent::scenario::play_files(count, arguments, [] {
    return std::make_unique<lambent::scenario::StagedStory<Given, Stage>>();
  });
}
