#include "util/fabric/verbs/verbs_cm_library.h"

#include <fmt/core.h>

#include "util/fabric/shared_library.h"

namespace dlsm {
namespace {

constexpr const char* kCmFile = "librdmacm.so.1";
constexpr const char* kCmRemedy =
    "install rdma-core (Debian: librdmacm1), or, where the RDMA device is not iWARP, use "
    "connection=hello";

Status Load(VerbsCmLibrary* to) {
  SharedLibrary library(kCmFile);
  if (!library.error().empty()) {
    return Status::NotSupported(fmt::format("the RDMA connection manager cannot be used: {}; {}",
                                            library.error(), kCmRemedy));
  }
  library.Find("rdma_create_event_channel", &to->create_event_channel);
  library.Find("rdma_destroy_event_channel", &to->destroy_event_channel);
  library.Find("rdma_get_cm_event", &to->get_cm_event);
  library.Find("rdma_ack_cm_event", &to->ack_cm_event);
  library.Find("rdma_event_str", &to->event_str);
  library.Find("rdma_create_id", &to->create_id);
  library.Find("rdma_destroy_id", &to->destroy_id);
  library.Find("rdma_set_option", &to->set_option);
  library.Find("rdma_bind_addr", &to->bind_addr);
  library.Find("rdma_listen", &to->listen);
  library.Find("rdma_get_src_port", &to->get_src_port);
  library.Find("rdma_resolve_addr", &to->resolve_addr);
  library.Find("rdma_resolve_route", &to->resolve_route);
  library.Find("rdma_init_qp_attr", &to->init_qp_attr);
  library.Find("rdma_connect", &to->connect);
  library.Find("rdma_establish", &to->establish);
  library.Find("rdma_accept", &to->accept);
  library.Find("rdma_reject", &to->reject);
  if (library.missing().empty()) return Status::OK();
  return Status::NotSupported(
      fmt::format("the RDMA connection manager cannot be used: {} has no {}, so it is older than "
                  "rdma-core 32; {}",
                  kCmFile, library.missing(), kCmRemedy));
}

}  // namespace

Status VerbsCmLibrary::Get(const VerbsCmLibrary** library) {
  struct Loaded {
    VerbsCmLibrary calls;
    Status status = Load(&calls);
  };
  static const Loaded loaded;
  *library = &loaded.calls;
  return loaded.status;
}

}  // namespace dlsm
