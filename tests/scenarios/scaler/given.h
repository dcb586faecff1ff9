// Given: the first part of a scaler scenario: what an instance can be, the devices, and the
// scaler's options. Used by the runner; one thread.
#pragma once

#include <string>
#include <vector>

#include "decide/scheduling/infless_scaler.h"
#include "tests/scenarios/words.h"

namespace lambent::scaler_scenario {

using scenario::Failure;
using scenario::Words;

class Given {
 public:
  // Reads one line of it; false if the line belongs to the story already.
  bool read(Words& words);

  const scheduling::InflessScalerOptions& options() const { return options_; }
  const std::vector<scheduling::InstanceShape>& shapes() const { return shapes_; }
  const std::vector<std::string>& names() const { return names_; }  // of the shapes
  const std::vector<scheduling::ScalerDevice>& devices() const { return devices_; }

 private:
  void read_shape(Words& words);
  void read_device(Words& words);
  void read_option(Words& words);

  scheduling::InflessScalerOptions options_;
  std::vector<scheduling::InstanceShape> shapes_;
  std::vector<std::string> names_;
  std::vector<scheduling::ScalerDevice> devices_;
};

}  // namespace lambent::scaler_scenario
