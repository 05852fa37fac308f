// libibverbs, opened when it is first needed: so one binary runs on machines with it and without.
#pragma once

#include <infiniband/verbs.h>

#include <memory>

#include "dLSM/status.h"

namespace dlsm {

// The calls that the library exports. What <infiniband/verbs.h> defines inline (posting, polling)
// goes through the context's own table and needs nothing of this.
struct VerbsLibrary {
  // Opens the library once for the process; later calls return the same. NotSupported, with the
  // cause and the remedy, where it is not installed or too old. Thread-safe.
  static Status Get(const VerbsLibrary** library);

  decltype(&::ibv_get_device_list) get_device_list = nullptr;
  decltype(&::ibv_free_device_list) free_device_list = nullptr;
  decltype(&::ibv_get_device_name) get_device_name = nullptr;
  decltype(&::ibv_open_device) open_device = nullptr;
  decltype(&::ibv_close_device) close_device = nullptr;
  decltype(&::ibv_query_device) query_device = nullptr;
  decltype(&::ibv_query_port) query_port = nullptr;  // Call QueryPort() instead.
  decltype(&::_ibv_query_gid_table) query_gid_table = nullptr;
  decltype(&::ibv_alloc_pd) alloc_pd = nullptr;
  decltype(&::ibv_dealloc_pd) dealloc_pd = nullptr;
  struct ibv_mr* (*reg_mr)(struct ibv_pd*, void*, size_t, int) = nullptr;
  decltype(&::ibv_dereg_mr) dereg_mr = nullptr;
  decltype(&::ibv_create_comp_channel) create_comp_channel = nullptr;
  decltype(&::ibv_destroy_comp_channel) destroy_comp_channel = nullptr;
  decltype(&::ibv_create_cq) create_cq = nullptr;
  decltype(&::ibv_destroy_cq) destroy_cq = nullptr;
  decltype(&::ibv_get_cq_event) get_cq_event = nullptr;
  decltype(&::ibv_ack_cq_events) ack_cq_events = nullptr;
  decltype(&::ibv_create_qp) create_qp = nullptr;
  decltype(&::ibv_modify_qp) modify_qp = nullptr;
  decltype(&::ibv_destroy_qp) destroy_qp = nullptr;
  decltype(&::ibv_wc_status_str) wc_status_str = nullptr;
  decltype(&::ibv_get_async_event) get_async_event = nullptr;
  decltype(&::ibv_ack_async_event) ack_async_event = nullptr;
  decltype(&::ibv_event_type_str) event_type_str = nullptr;

  // Returns 0 or an errno.
  int QueryPort(ibv_context* context, uint8_t port, ibv_port_attr* attributes) const;
};

// A verbs object, given back by the library's own call.
template <typename Object>
using VerbsPointer = std::unique_ptr<Object, int (*)(Object*)>;

}  // namespace dlsm
