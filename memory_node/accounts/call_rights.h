// What the clients of an access list may ask of a memory node (util/rpc/auth/access_list.h).
#pragma once

#include <string>

#include "dLSM/status.h"
#include "util/rpc/channel/rpc.h"
#include "util/rpc/messages/messages.h"

namespace dlsm {

// InvalidArgument unless the peer may ask for this, or if no database can have such a name. It need
// not exist: nobody learns whether it does.
Status CheckMayAsk(const RpcPeer& peer, const OpenDatabaseRequest& request);
Status CheckMayAsk(const RpcPeer& peer, const DestroyDatabaseRequest& request);
Status CheckMayAsk(const RpcPeer& peer, const OpenReaderRequest& request);
// What concerns all databases is for clients with the cluster's secret.
Status CheckMayAsk(const RpcPeer& peer, const SetMergeScheduleRequest& request);
Status CheckMayAsk(const RpcPeer& peer, const SetQuotaRequest& request);

// The table of databases looks at the rights to each of these.
inline Status CheckMayAsk(const RpcPeer&, const RenewSessionsRequest&) { return Status::OK(); }

// What a request names that its client was given when it opened a database, or databases to read.
template <typename Request>
concept NamesSession = requires(Request request) {
  request.session;
};
template <typename Request>
concept NamesReader = requires(Request request) {
  request.reader;
};

// The table of databases looks at the rights of a session's client where it finds the session.
template <typename Request>
Status CheckMayAsk(const RpcPeer&, const Request&) {
  static_assert(NamesSession<Request> || NamesReader<Request>, "who may ask for this?");
  return Status::OK();
}

// The same of a database that is there.
Status CheckMayOwn(const RpcPeer& peer, const std::string& database);

// Leaves what the peer may know of.
void FilterFor(const RpcPeer& peer, ListDatabasesReply* list);

}  // namespace dlsm
