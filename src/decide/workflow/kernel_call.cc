#include "decide/workflow/kernel_call.h"

#include <algorithm>
#include <functional>
#include <initializer_list>

namespace lambent::workflow {
namespace {

constexpr const char* kObject = "object";

Error wrong_tensor(const std::string& name, const std::string& what) {
  return {ErrorCode::kInvalidArgument, "input '" + name.substr(0, 64) + "' " + what};
}

Result<Value> input_entry(const std::string& name, const Value& tensor) {
  Value entry = {{"name", name}};
  if (tensor.is_array() || tensor.is_string()) {
    entry["data"] = tensor;
    return entry;
  }
  if (tensor.is_number() || tensor.is_boolean()) {
    entry["data"] = Value::array({tensor});
    return entry;
  }
  if (!tensor.is_object()) {
    return wrong_tensor(name, "is " + std::string(kind_of(tensor)) +
                                  "; a tensor is an object's reference, numbers, or datatype, "
                                  "shape and data");
  }
  for (const auto& [key, value] : tensor.items()) {
    if (key == kObject) {
      entry["parameters"] = {{kObject, value}};
    } else if (key == "datatype" || key == "shape" || key == "data") {
      entry[key] = value;
    } else {
      return wrong_tensor(name, "has the key '" + key.substr(0, 64) +
                                    "'; a tensor has object, or datatype, shape and data");
    }
  }
  return entry;
}

void collect_objects(const Value& value, std::vector<ObjectId>& into) {
  if (value.is_object()) {
    if (const auto found = value.find(kObject); found != value.end() && found->is_string()) {
      if (const auto id = object_id_from_string(found->get_ref<const std::string&>())) {
        into.push_back(*id);
      }
    }
  }
  if (!value.is_structured()) return;
  for (const Value& each : value) collect_objects(each, into);
}

std::optional<std::vector<uint32_t>> readers_of(
    const Workflow& workflow, const std::function<bool(const Reference&)>& is_it) {
  const auto names_it = [&](const Template& in) {
    std::vector<const Reference*> references;
    collect_references(in, references);
    return std::ranges::any_of(references, [&](const Reference* each) { return is_it(*each); });
  };
  if (names_it(workflow.output)) return std::nullopt;
  std::vector<uint32_t> readers;
  for (uint32_t i = 0; i < workflow.components.size(); ++i) {
    const Component& each = workflow.components[i];
    if (names_it(each.input) || (each.for_each && names_it(*each.for_each))) readers.push_back(i);
  }
  return readers;
}

}  // namespace

Result<std::string> kernel_request(const Value& input, KernelOutputs outputs) {
  if (!input.is_object()) {
    return Error{ErrorCode::kInvalidArgument,
                 "the input of a kernel function is an object of tensors by name, this is " +
                     std::string(kind_of(input))};
  }
  Value request = {{"inputs", Value::array()}};
  for (const auto& [name, tensor] : input.items()) {
    ASSIGN_OR_RETURN(Value entry, input_entry(name, tensor));
    request["inputs"].push_back(std::move(entry));
  }
  if (outputs != KernelOutputs::kByValue) request["parameters"] = {{kObject, true}};
  if (outputs == KernelOutputs::kOnDevice) request["parameters"]["keep"] = "device";
  return to_text(request);
}

uint64_t elements_of(const Value& input) {
  if (!input.is_object()) return 0;
  for (const Value& tensor : input) {
    const auto shape = tensor.is_object() ? tensor.find("shape") : tensor.end();
    if (!tensor.is_object() || shape == tensor.end()) continue;
    if (!shape->is_array() || shape->empty() || !shape->front().is_number_integer()) return 0;
    return static_cast<uint64_t>(std::max<int64_t>(shape->front().get<int64_t>(), 0));
  }
  return 0;
}

Result<Value> kernel_outputs(std::string_view answer) {
  const Error strange{ErrorCode::kInternal, "the executor answered in other words than expected"};
  ASSIGN_OR_RETURN(const Value parsed, parse_value(answer));
  const auto list = parsed.is_object() ? parsed.find("outputs") : parsed.end();
  if (!parsed.is_object() || list == parsed.end() || !list->is_array()) return strange;
  Value outputs = Value::object();
  for (const Value& each : *list) {
    if (!each.is_object() || !each.contains("name") || !each["name"].is_string()) return strange;
    Value& output = outputs[each["name"].get<std::string>()] = Value::object();
    for (const char* key : {"datatype", "shape", "data"}) {
      if (const auto found = each.find(key); found != each.end()) output[key] = *found;
    }
    const auto parameters = each.find("parameters");
    if (parameters != each.end() && parameters->is_object() && parameters->contains(kObject)) {
      output[kObject] = (*parameters)[kObject];
    }
  }
  return outputs;
}

std::optional<std::vector<uint32_t>> inner_readers_of(const Workflow& workflow,
                                                      uint32_t component) {
  return readers_of(workflow, [component](const Reference& each) {
    return each.root == Reference::Root::kComponent && each.component == component;
  });
}

std::optional<std::vector<uint32_t>> inner_readers_of_input(const Workflow& workflow) {
  return readers_of(workflow,
                    [](const Reference& each) { return each.root == Reference::Root::kInput; });
}

std::vector<ObjectId> objects_in(const Value& value) {
  std::vector<ObjectId> objects;
  collect_objects(value, objects);
  std::sort(objects.begin(), objects.end());
  objects.erase(std::unique(objects.begin(), objects.end()), objects.end());
  return objects;
}

}  // namespace lambent::workflow
