/* A library that insists on static TLS, as many numerical libraries and drivers do; TLS_BYTES comes from the
 * build. */
static __thread char storage[TLS_BYTES] __attribute__((tls_model("initial-exec")));

int touch_tls(void) {
  storage[TLS_BYTES - 1] = 1;
  return ++storage[0];
}
