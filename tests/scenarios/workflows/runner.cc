// workflow_scenario_runner FILE...: plays scenarios of workflows; says which line of which did not
// come true. See ../README.md for the language.
#include <memory>

#include "tests/scenarios/story.h"
#include "tests/scenarios/workflows/given.h"
#include "tests/scenarios/workflows/stage.h"

int main(int count, char** arguments) {
  using lambent::workflow_scenario::Given;
  using lambent::workflow_scenario::Stage;
  return lambent::scenario::play_files(count, arguments, [] {
    return std::make_unique<lambent::scenario::StagedStory<Given, Stage>>();
  });
}
