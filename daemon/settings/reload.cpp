// See reload.h.
#include "daemon/settings/reload.h"

#include <utility>

namespace terrace::daemon {

bool takes_restart(const Config& next, const Config& config, const std::string& socket) {
  return next.socket != socket || next.group != config.group ||
         next.pool_directory != config.pool_directory || next.encrypts_pool != config.encrypts_pool ||
         next.state != config.state || next.tiers.nvm != config.tiers.nvm || next.metrics != config.metrics;
}

void take_over(Config next, Config* config) {
  next.socket = std::move(config->socket);
  next.group = std::move(config->group);
  next.pool_directory = std::move(config->pool_directory);
  next.encrypts_pool = config->encrypts_pool;
  next.state = std::move(config->state);
  next.tiers.nvm = std::move(config->tiers.nvm);
  next.metrics = std::move(config->metrics);
  *config = std::move(next);
}

}  // namespace terrace::daemon
