// librdmacm, the RDMA connection manager, opened when it is first needed.
#pragma once

#include <rdma/rdma_cma.h>

#include "dLSM/status.h"

namespace dlsm {

struct VerbsCmLibrary {
  // Opens the library once for the process; later calls return the same. NotSupported, with the
  // cause and the remedy, where it is not installed or too old. Thread-safe.
  static Status Get(const VerbsCmLibrary** library);

  decltype(&::rdma_create_event_channel) create_event_channel = nullptr;
  decltype(&::rdma_destroy_event_channel) destroy_event_channel = nullptr;
  decltype(&::rdma_get_cm_event) get_cm_event = nullptr;
  decltype(&::rdma_ack_cm_event) ack_cm_event = nullptr;
  decltype(&::rdma_event_str) event_str = nullptr;
  decltype(&::rdma_create_id) create_id = nullptr;
  decltype(&::rdma_destroy_id) destroy_id = nullptr;
  decltype(&::rdma_set_option) set_option = nullptr;
  decltype(&::rdma_bind_addr) bind_addr = nullptr;
  decltype(&::rdma_listen) listen = nullptr;
  decltype(&::rdma_get_src_port) get_src_port = nullptr;
  decltype(&::rdma_resolve_addr) resolve_addr = nullptr;
  decltype(&::rdma_resolve_route) resolve_route = nullptr;
  decltype(&::rdma_init_qp_attr) init_qp_attr = nullptr;
  decltype(&::rdma_connect) connect = nullptr;
  decltype(&::rdma_establish) establish = nullptr;
  decltype(&::rdma_accept) accept = nullptr;
  decltype(&::rdma_reject) reject = nullptr;
};

}  // namespace dlsm
