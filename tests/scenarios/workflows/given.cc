#include "tests/scenarios/workflows/given.h"

#include "decide/workflow/graph_json.h"

namespace lambent::workflow_scenario {
namespace {

// when $A | when not $A | when $A OP VALUE, where a word that is no JSON is text
Value read_condition(Words& words) {
  if (words.take("not")) return {{"not", words.take_any()}};
  const std::string reference = words.take_any();
  for (const char* op : {"==", "!=", "<", "<=", ">", ">="}) {
    if (!words.take(op)) continue;
    const std::string word = words.take_any();
    const auto value = workflow::parse_value(word);
    return {{"ref", reference}, {"op", op}, {"value", value.ok() ? *value : Value(word)}};
  }
  return reference;
}

}  // namespace

Value value_of(const std::string& text) {
  if (text.starts_with("$")) return text;
  auto value = workflow::parse_value(text);
  if (!value.ok()) throw Failure("'" + text + "' is no JSON and no reference");
  return std::move(value).value();
}

bool Given::read(Words& words) {
  if (words.take("workflow")) {
    name_ = words.take_any();
  } else if (words.take("component")) {
    read_component(words);
  } else if (words.take("output")) {
    graph_["output"] = value_of(words.rest());
  } else if (words.take("limit")) {
    read_limit(words);
  } else {
    return false;
  }
  if (!words.done()) throw Failure("'" + words.take_any() + "' has no meaning here");
  return true;
}

void Given::read_component(Words& words) {
  Value component = {{"name", words.take_any()}};
  words.expect("calls");
  component["function"] = words.take_any();
  while (!words.done()) {
    if (words.take("for-each")) {
      component["for_each"] = value_of(words.take_any());
    } else if (words.take("when")) {
      component["when"] = read_condition(words);
    } else if (words.take("after")) {
      do {
        component["after"].push_back(words.take_any());
      } while (words.take("and"));
    } else if (words.take("idempotent")) {
      component["idempotent"] = true;
    } else if (words.take("input")) {
      component["input"] = value_of(words.rest());
    } else {
      break;
    }
  }
  graph_["components"].push_back(component);
}

void Given::read_limit(Words& words) {
  if (words.take("in-flight")) {
    limits_.in_flight = words.count();
  } else if (words.take("fan-out")) {
    limits_.fan_out = words.count();
  } else if (words.take("attempts")) {
    limits_.attempts = static_cast<unsigned>(words.count());
  } else if (words.take("values")) {
    limits_.values = words.bytes();
  } else {
    throw Failure("limits are in-flight, fan-out, attempts and values");
  }
}

std::shared_ptr<const workflow::Workflow> Given::workflow() const {
  auto workflow = workflow::parse_workflow(graph_.dump());
  if (!workflow.ok())
    throw Failure("the lines before are no workflow: " + workflow.error().message);
  return std::make_shared<const workflow::Workflow>(std::move(workflow).value());
}

}  // namespace lambent::workflow_scenario
