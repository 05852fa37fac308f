#include "util/fabric/verbs_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <string>

#include "util/status_macros.h"

namespace dlsm {
namespace {

constexpr const char* kFile = "libibverbs.so.1";
constexpr const char* kRemedy =
    "install rdma-core (Debian: libibverbs1 and ibverbs-providers), or use another fabric";

// Finds functions until one is missing.
class Finder {
 public:
  explicit Finder(void* library) : library_(library) {}

  template <typename Function>
  void Find(const char* name, Function* function) {
    if (!missing_.empty()) return;
    *function = reinterpret_cast<Function>(::dlsym(library_, name));
    if (*function == nullptr) missing_ = name;
  }
  const std::string& missing() const { return missing_; }

 private:
  void* const library_;
  std::string missing_;
};

Status Load(VerbsLibrary* to) {
  // Never closed: the providers that it loads keep pointers into it.
  void* const opened = ::dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) {
    return Status::NotSupported(
        fmt::format("the verbs fabric cannot be used: {}; {}", ::dlerror(), kRemedy));
  }
  Finder finder(opened);
  finder.Find("ibv_get_device_list", &to->get_device_list);
  finder.Find("ibv_free_device_list", &to->free_device_list);
  finder.Find("ibv_get_device_name", &to->get_device_name);
  finder.Find("ibv_open_device", &to->open_device);
  finder.Find("ibv_close_device", &to->close_device);
  finder.Find("ibv_query_device", &to->query_device);
  finder.Find("ibv_query_port", &to->query_port);
  finder.Find("_ibv_query_gid_table", &to->query_gid_table);
  finder.Find("ibv_alloc_pd", &to->alloc_pd);
  finder.Find("ibv_dealloc_pd", &to->dealloc_pd);
  finder.Find("ibv_reg_mr", &to->reg_mr);
  finder.Find("ibv_dereg_mr", &to->dereg_mr);
  finder.Find("ibv_create_comp_channel", &to->create_comp_channel);
  finder.Find("ibv_destroy_comp_channel", &to->destroy_comp_channel);
  finder.Find("ibv_create_cq", &to->create_cq);
  finder.Find("ibv_destroy_cq", &to->destroy_cq);
  finder.Find("ibv_get_cq_event", &to->get_cq_event);
  finder.Find("ibv_ack_cq_events", &to->ack_cq_events);
  finder.Find("ibv_create_qp", &to->create_qp);
  finder.Find("ibv_modify_qp", &to->modify_qp);
  finder.Find("ibv_destroy_qp", &to->destroy_qp);
  finder.Find("ibv_wc_status_str", &to->wc_status_str);
  finder.Find("ibv_get_async_event", &to->get_async_event);
  finder.Find("ibv_ack_async_event", &to->ack_async_event);
  finder.Find("ibv_event_type_str", &to->event_type_str);
  if (finder.missing().empty()) return Status::OK();
  return Status::NotSupported(fmt::format(
      "the verbs fabric cannot be used: {} has no {}, so it is older than rdma-core 32; "
      "{}",
      kFile, finder.missing(), kRemedy));
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
