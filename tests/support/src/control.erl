%% Evaluates in the broker, for whoever may enter its folder: a line of Erlang in, a line with the value or the error out.
%% rabbitmqctl does the same, but starts an Erlang machine of its own for each call, which takes half a second of a core.
spawn(fun() ->
    Socket = "control",
    _ = file:delete(Socket),
    {ok, Listening} = gen_tcp:listen(0, [{ifaddr, {local, Socket}}, binary, {packet, line}, {buffer, 65536}, {active, false}]),
    Value = fun(Line) ->
        {ok, Tokens, _} = erl_scan:string(unicode:characters_to_list(Line)),
        {ok, Expressions} = erl_parse:parse_exprs(Tokens),
        {value, Found, _} = erl_eval:exprs(Expressions, erl_eval:new_bindings()),
        Found
    end,
    Answer = fun(Line) ->
        try {value, Value(Line)} catch _:Reason -> {error, Reason} end
    end,
    %% None waits for another. A socket ends with its owner.
    Serve = fun(Asking) ->
        {ok, Line} = gen_tcp:recv(Asking, 0),
        ok = gen_tcp:send(Asking, io_lib:format("~0p~n", [Answer(Line)])),
        gen_tcp:close(Asking)
    end,
    (fun Accept() ->
        {ok, Asking} = gen_tcp:accept(Listening),
        Served = spawn(fun() -> receive yours -> Serve(Asking) end end),
        ok = gen_tcp:controlling_process(Asking, Served),
        Served ! yours,
        Accept()
    end)()
end).
