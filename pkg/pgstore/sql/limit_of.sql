-- limit_of: how many holders a lock may have: the entry of its name, else of the longest prefix, else the job's own number.
CREATE FUNCTION weir.limit_of(p_key text, p_own int) RETURNS int
LANGUAGE plpgsql STABLE
AS $$
BEGIN
  RETURN coalesce(
    (SELECT x.slots FROM weir.limits AS x WHERE x.key = p_key AND NOT x.prefix AND NOT x.rate),
    (SELECT x.slots FROM weir.limits AS x WHERE x.prefix AND NOT x.rate AND starts_with(p_key, x.key)
      ORDER BY octet_length(x.key) DESC LIMIT 1),
    p_own);
END
$$;
