#include "sim/workload/svg.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace lambent::workload {

std::string markup_escape(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        // Control characters have no place in XML.
        escaped += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? ' ' : c;
    }
  }
  return escaped;
}

std::string fixed(double number, int digits) {
  char text[48];
  std::snprintf(text, sizeof(text), "%.*f", digits, std::isfinite(number) ? number : 0.0);
  return text;
}

std::string seconds_label(double seconds) {
  char text[48];
  if (seconds == 0) return "0";
  if (seconds < 1e-3) {
    std::snprintf(text, sizeof(text), "%.3g µs", seconds * 1e6);
  } else if (seconds < 1) {
    std::snprintf(text, sizeof(text), "%.3g ms", seconds * 1e3);
  } else if (seconds < 1000) {
    std::snprintf(text, sizeof(text), "%.3g s", seconds);
  } else {
    std::snprintf(text, sizeof(text), "%.0f s", seconds);
  }
  return text;
}

Scale::Scale(double least, double most, double from_pixel, double to_pixel, bool logarithmic)
    : least_(least), most_(most), from_(from_pixel), to_(to_pixel), logarithmic_(logarithmic) {
  if (logarithmic_) {
    least_ = std::max(least_, 1e-9);
    most_ = std::max(most_, least_ * 1.001);
  } else {
    most_ = std::max(most_, least_ + 1e-9);
  }
}

double Scale::pixel(double value) const {
  double share = 0;
  if (logarithmic_) {
    share = std::log(std::max(value, least_) / least_) / std::log(most_ / least_);
  } else {
    share = (value - least_) / (most_ - least_);
  }
  return from_ + std::clamp(share, 0.0, 1.0) * (to_ - from_);
}

std::vector<double> Scale::ticks() const {
  constexpr double kSlack = 1 + 1e-9;
  std::vector<double> ticks;
  if (logarithmic_) {
    const double decades = std::log10(most_ / least_);
    for (double decade = std::pow(10, std::floor(std::log10(least_))); decade <= most_ * kSlack;
         decade *= 10) {
      for (const double factor : {1.0, 2.0, 5.0}) {
        if (factor > 1 && decades > 2.5) continue;
        const double tick = decade * factor;
        if (tick * kSlack >= least_ && tick <= most_ * kSlack) ticks.push_back(tick);
      }
    }
    return ticks;
  }
  const double rough = (most_ - least_) / 5;
  double step = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {10.0, 5.0, 2.0}) {
    if (step * factor <= rough * 1.5) {
      step *= factor;
      break;
    }
  }
  const auto first = static_cast<int64_t>(std::ceil(least_ / step - 1e-9));
  const auto last = static_cast<int64_t>(std::floor(most_ / step + 1e-9));
  for (int64_t i = first; i <= last && ticks.size() < 20; ++i) {
    ticks.push_back(static_cast<double>(i) * step);
  }
  return ticks;
}

Drawing::Drawing(double width, double height, std::string_view label) {
  svg_ = "<svg viewBox=\"0 0 " + fixed(width, 0) + " " + fixed(height, 0) +
         "\" role=\"img\" aria-label=\"" + markup_escape(label) +
         "\" xmlns=\"http://www.w3.org/2000/svg\">\n";
}

void Drawing::line(double x1, double y1, double x2, double y2, std::string_view css_class) {
  svg_ += "<line x1=\"" + fixed(x1, 1) + "\" y1=\"" + fixed(y1, 1) + "\" x2=\"" + fixed(x2, 1) +
          "\" y2=\"" + fixed(y2, 1) + "\" class=\"" + std::string(css_class) + "\"/>\n";
}

void Drawing::rectangle(double x, double y, double width, double height, std::string_view css_class,
                        std::string_view tooltip) {
  svg_ += "<rect x=\"" + fixed(x, 1) + "\" y=\"" + fixed(y, 1) + "\" width=\"" +
          fixed(std::max(width, 0.5), 1) + "\" height=\"" + fixed(height, 1) +
          "\" rx=\"1.5\" class=\"" + std::string(css_class) + "\"><title>" +
          markup_escape(tooltip) + "</title></rect>\n";
}

void Drawing::text(double x, double y, std::string_view text, std::string_view anchor,
                   std::string_view css_class) {
  svg_ += "<text x=\"" + fixed(x, 1) + "\" y=\"" + fixed(y, 1) + "\" text-anchor=\"" +
          std::string(anchor) + "\" class=\"" + std::string(css_class) + "\">" +
          markup_escape(text) + "</text>\n";
}

void Drawing::polyline(const std::vector<std::pair<double, double>>& points,
                       std::string_view css_class, std::string_view tooltip) {
  if (points.empty()) return;
  svg_ += "<polyline class=\"" + std::string(css_class) + "\" points=\"";
  for (const auto& [x, y] : points) svg_ += fixed(x, 1) + "," + fixed(y, 1) + " ";
  svg_.pop_back();
  svg_ += "\"><title>" + markup_escape(tooltip) + "</title></polyline>\n";
}

std::string Drawing::finish() && { return std::move(svg_) + "</svg>\n"; }

}  // namespace lambent::workload
