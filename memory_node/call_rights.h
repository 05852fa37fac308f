// What the clients of an access list may ask of a memory node (util/rpc/access_list.h).
#pragma once

#include <string>

#include "dLSM/status.h"
#include "util/rpc/messages.h"
#include "util/rpc/rpc.h"

namespace dlsm {

// InvalidArgument unless the peer may, or if no database can have such a name. It need not exist:
// nobody learns whether it does.
Status CheckMayOwn(const RpcPeer& peer, const std::string& database);
Status CheckMayRead(const RpcPeer& peer, const std::string& database);
// What concerns all databases is for clients with the cluster's secret.
Status CheckMayRule(const RpcPeer& peer);

// Leaves what the peer may know of.
void FilterFor(const RpcPeer& peer, ListDatabasesReply* list);

}  // namespace dlsm
