#include "util/fabric/verbs/verbs_library.h"

#include <fmt/core.h>

#include "util/fabric/shared_library.h"

namespace dlsm {
namespace {

constexpr const char* kFile = "libibverbs.so.1";
constexpr const char* kRemedy =
    "install rdma-core (Debian: libibverbs1 and ibverbs-providers), or use another fabric";

Status Load(VerbsLibrary* to) {
  SharedLibrary library(kFile);
  if (!library.error().empty()) {
    return Status::NotSupported(
        fmt::format("the verbs fabric cannot be used: {}; {}", library.error(), kRemedy));
  }
  library.Find("ibv_get_device_list", &to->get_device_list);
  library.Find("ibv_free_device_list", &to->free_device_list);
  library.Find("ibv_get_device_name", &to->get_device_name);
  library.Find("ibv_open_device", &to->open_device);
  library.Find("ibv_close_device", &to->close_device);
  library.Find("ibv_query_device", &to->query_device);
  library.Find("ibv_query_port", &to->query_port);
  library.Find("_ibv_query_gid_table", &to->query_gid_table);
  library.Find("ibv_alloc_pd", &to->alloc_pd);
  library.Find("ibv_dealloc_pd", &to->dealloc_pd);
  library.Find("ibv_reg_mr", &to->reg_mr);
  library.Find("ibv_dereg_mr", &to->dereg_mr);
  library.Find("ibv_create_comp_channel", &to->create_comp_channel);
  library.Find("ibv_destroy_comp_channel", &to->destroy_comp_channel);
  library.Find("ibv_create_cq", &to->create_cq);
  library.Find("ibv_destroy_cq", &to->destroy_cq);
  library.Find("ibv_get_cq_event", &to->get_cq_event);
  library.Find("ibv_ack_cq_events", &to->ack_cq_events);
  library.Find("ibv_create_qp", &to->create_qp);
  library.Find("ibv_modify_qp", &to->modify_qp);
  library.Find("ibv_destroy_qp", &to->destroy_qp);
  library.Find("ibv_wc_status_str", &to->wc_status_str);
  library.Find("ibv_get_async_event", &to->get_async_event);
  library.Find("ibv_ack_async_event", &to->ack_async_event);
  library.Find("ibv_event_type_str", &to->event_type_str);
  if (library.missing().empty()) return Status::OK();
  return Status::NotSupported(fmt::format(
      "the verbs fabric cannot be used: {} has no {}, so it is older than rdma-core 32; "
      "{}",
      kFile, library.missing(), kRemedy));
}

}  // namespace

Status VerbsLibrary::Get(const VerbsLibrary** library) {
  struct Loaded {
    VerbsLibrary calls;
    Status status = Load(&calls);
  };
  static const Loaded loaded;
  *library = &loaded.calls;
  return loaded.status;
}

int VerbsLibrary::QueryPort(ibv_context* context, uint8_t port, ibv_port_attr* attributes) const {
  *attributes = {};
  verbs_context* const extended = verbs_get_ctx_op(context, query_port);
  if (extended != nullptr) {
    return extended->query_port(context, port, attributes, sizeof(*attributes));
  }
  return query_port(context, port, reinterpret_cast<_compat_ibv_port_attr*>(attributes));
}

}  // namespace dlsm
