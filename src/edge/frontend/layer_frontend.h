// LayerFrontend: layers by Lambda's REST API, /2018-10-31/layers, on a LayerService. On the loop
// thread.
#pragma once

#include "core/domain/layer.h"
#include "core/http/server.h"
#include "edge/frontend/caller.h"

namespace lambent::frontend {

class LayerFrontend {
 public:
  // The service, which may be null, outlives the frontend; the frontend may go while answers are
  // still out.
  explicit LayerFrontend(LayerService* service) : service_(service) {}

  bool is_there() const { return service_ != nullptr; }
  // Only if it is there, and of a path that is_layer_path().
  void handle(const Caller& caller, http::Request request, http::Responder responder);

 private:
  void publish(TenantId tenant, const std::string& name, std::string body,
               http::Responder responder);
  http::Response list_layers(TenantId tenant, std::string_view query) const;
  http::Response list_versions(TenantId tenant, const std::string& name,
                               std::string_view query) const;
  http::Response get(TenantId tenant, const Result<LayerReference>& layer) const;
  void remove(TenantId tenant, const LayerReference& layer, http::Responder responder);

  LayerService* const service_;
};

// What PublishLayerVersion sends of a layer of that name. INVALID_ARGUMENT, OUT_OF_RANGE.
Result<LayerPublication> read_layer_publication(const std::string& name, std::string body);

}  // namespace lambent::frontend
