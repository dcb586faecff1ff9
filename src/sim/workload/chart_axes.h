// The size and the axes that the charts of a report share. Pure; private to the charts.
#pragma once

#include <string>

#include "sim/workload/svg.h"

namespace lambent::workload {

inline constexpr double kWidth = 760;
inline constexpr double kHeight = 320;
inline constexpr double kLeft = 62;
inline constexpr double kRight = kWidth - 16;
inline constexpr double kTop = 14;
inline constexpr double kBottom = kHeight - 44;

inline void axis_below(Drawing& drawing, const Scale& scale, double top, double bottom,
                       const std::string& title) {
  for (const double tick : scale.ticks()) {
    const double x = scale.pixel(tick);
    drawing.line(x, top, x, bottom, "grid");
    drawing.text(x, bottom + 16, seconds_label(tick), "middle", "tick");
  }
  drawing.line(scale.pixel(scale.least()), bottom, kRight, bottom, "axis");
  drawing.text(kRight, bottom + 34, title, "end", "caption");
}

template <typename Label>
void axis_left(Drawing& drawing, const Scale& scale, Label label) {
  for (const double tick : scale.ticks()) {
    const double y = scale.pixel(tick);
    drawing.line(kLeft, y, kRight, y, "grid");
    drawing.text(kLeft - 8, y + 4, label(tick), "end", "tick");
  }
}

}  // namespace lambent::workload
