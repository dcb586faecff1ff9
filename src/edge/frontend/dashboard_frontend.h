// DashboardFrontend: the dashboard's page and its files, which anyone may load: they hold nothing
// of the worker's, and ask the API with the token that their reader has. On the loop thread.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "core/http/message.h"
#include "edge/dashboard/files.h"

namespace lambent::frontend {

// "/", and what lies below "/dashboard/".
bool is_dashboard_path(std::string_view path);

class DashboardFrontend {
 public:
  DashboardFrontend();

  // With headers that let the page load from the worker only, run no script of its text, and be in
  // no frame. 304 where the client has the file as it is.
  http::Response answer(const http::Request& request) const;

 private:
  struct Served {
    dashboard::File file;
    std::string etag;
  };
  std::map<std::string, Served, std::less<>> files_;  // by path
};

}  // namespace lambent::frontend
