// batch_scenario_runner FILE...: plays scenarios of calls that wait for each other; says which line
// of which did not come true. See ../README.md for the language.
#include <memory>

#include "tests/scenarios/batches/stage.h"
#include "tests/scenarios/story.h"

int main(int count, char** arguments) {
  using lambent::batch_scenario::Given;
  using lambent::batch_scenario::Stage;
  return lambent::scenario::play_files(count, arguments, [] {
    return std::make_unique<lambent::scenario::StagedStory<Given, Stage>>();
  });
}
