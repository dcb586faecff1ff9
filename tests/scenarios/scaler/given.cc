#include "tests/scenarios/scaler/given.h"

#include <algorithm>

namespace lambent::scaler_scenario {

bool Given::read(Words& words) {
  if (words.next_is("at") || words.next_is("expect")) return false;
  if (words.take("shape")) {
    read_shape(words);
  } else if (words.take("device")) {
    read_device(words);
  } else {
    read_option(words);
  }
  if (!words.done()) throw Failure("'" + words.take_any() + "' has no meaning here");
  return true;
}

void Given::read_shape(Words& words) {
  const std::string name = words.take_any();
  if (std::ranges::find(names_, name) != names_.end()) throw Failure(name + " is there already");
  scheduling::InstanceShape shape;
  while (!words.done()) {
    if (words.take("batch")) {
      shape.batch = static_cast<uint32_t>(words.count());
    } else if (words.take("share")) {
      shape.share = words.number();
    } else if (words.take("takes")) {
      shape.execution = words.duration();
    } else if (words.take("memory")) {
      shape.memory = words.bytes();
    } else {
      return;
    }
  }
  if (shape.execution <= Duration(0)) throw Failure("a shape says how long it takes");
  names_.push_back(name);
  shapes_.push_back(shape);
}

void Given::read_device(Words& words) {
  if (words.count() != devices_.size() + 1) throw Failure("devices are numbered from 1");
  scheduling::ScalerDevice device{.share = 1, .memory = Bytes::gib(16)};
  while (!words.done()) {
    if (words.take("share")) {
      device.share = words.number();
    } else if (words.take("memory")) {
      device.memory = words.bytes();
    } else if (words.take("weights")) {
      device.weights = words.bytes();
    } else {
      return;
    }
  }
  device.free = device.memory;
  devices_.push_back(device);
}

void Given::read_option(Words& words) {
  const std::string name = words.take_any();
  if (name == "slo") {
    options_.slo = words.duration();
  } else if (name == "release") {
    options_.release = words.number();
  } else if (name == "headroom") {
    options_.headroom = words.number();
  } else if (name == "rate-window") {
    options_.rate_window = words.duration();
  } else if (name == "spare-for") {
    options_.spare_for = words.duration();
  } else if (name == "memory-weight") {
    options_.memory_weight = words.number();
  } else if (name == "idle-samples") {
    options_.idle.least_samples = words.count();
  } else {
    throw Failure("a scaler has no '" + name + "'");
  }
}

}  // namespace lambent::scaler_scenario
